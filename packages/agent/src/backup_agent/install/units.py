"""Description of a system service: its unit file, and the commands that start and remove it."""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from backup_agent.problems import Problem
from backup_engine.frozen import frozen

Arguments = tuple[str, ...]


@frozen
class Installation:
    unit: Path
    content: str
    starting: tuple[Arguments, ...]
    removing: tuple[Arguments, ...]
    forgetting: tuple[Arguments, ...] = ()
    """Commands to run after the unit file has been removed."""


def program() -> str:
    """Absolute path of the command that runs this agent."""
    beside_interpreter = Path(sys.executable).with_name("backup-agent")
    called = Path(sys.argv[0]).absolute()
    return str(beside_interpreter if beside_interpreter.exists() else called)


def apply(commands: Iterable[Arguments], *, must_succeed: bool = False) -> None:
    """Run service manager commands one after the other."""
    for command in commands:
        try:
            ended = subprocess.run(command, check=False, capture_output=True, text=True)
            failure = ended.stderr.strip() if ended.returncode else ""
        except OSError as error:
            failure = error.strerror or "it cannot be run"
        if failure and must_succeed:
            raise Problem(f"`{' '.join(command)}` failed: {failure}")
