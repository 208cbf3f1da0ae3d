"""From an engine's command with output, and a machine, to one command that pours the one into the other."""

import shlex
import sys
from dataclasses import replace

from backup_engine.command import Command, Machine
from backup_engine.far import pour


def poured(command: Command, machine: Machine, program: tuple[str, ...]) -> Command:
    """The engine runs here, and what it writes is the standard input of a program there."""
    there = (*machine.ssh, shlex.join(program))
    argv = (sys.executable, "-I", "-S", pour.__file__, str(len(there)), *there, *command.argv)
    shown = f"{shlex.join(command.argv)} | [{machine.name}] {shlex.join(program)}"
    return replace(command, argv=argv, shown=shown)
