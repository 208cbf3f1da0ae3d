"""Turn an engine's command with output into one that pipes the output into another program."""

import base64
import shlex
from dataclasses import replace
from pathlib import Path

from backup_engine.command import Command, Machine
from backup_engine.compiled import run_compiled

# Referred to by path: these programs run separately, and an idle agent need not load them.
PIPE_INTO = Path(__file__).with_name("pipe_into.py")
UNPACK = Path(__file__).with_name("unpack.py")


def unpacked_here(command: Command, folder: bytes) -> Command:
    """Unpack the engine's tar stream into a folder on this machine."""
    argv = (*run_compiled(str(UNPACK)), _exact(folder))
    return _into(command, argv, f"unpack into {shlex.quote(_shown(folder))}")


def unpacked_there(command: Command, machine: Machine, folder: bytes) -> Command:
    """Unpack the engine's tar stream into a folder on another machine, which needs Python but no program of
    Holdfast.
    """
    assert machine.python is not None
    program = (machine.python, "-I", "-S", "-c", UNPACK.read_text(), _exact(folder))
    argv = (*machine.ssh, shlex.join(program))
    return _into(command, argv, f"[{machine.name}] unpack into {shlex.quote(_shown(folder))}")


def joined(command: Command, engine: Command) -> Command:
    """Combine a command that has a receiver with the local command that runs its engine."""
    argv = (*run_compiled(str(PIPE_INTO)), str(len(command.into)), *command.into, *engine.argv)
    return replace(engine, argv=argv, machine=None, into=())


def _into(command: Command, argv: tuple[str, ...], receiver: str) -> Command:
    where = f"[{command.machine.name}] " if command.machine else ""
    return replace(command, into=argv, shown=f"{where}{command.shown or shlex.join(command.argv)} | {receiver}")


def _exact(folder: bytes) -> str:
    return base64.b64encode(folder).decode()


def _shown(folder: bytes) -> str:
    return folder.decode("utf-8", "surrogateescape")
