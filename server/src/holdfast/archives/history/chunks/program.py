"""Which Python an engine program runs under."""

import os
import shlex
import shutil
from pathlib import Path

HELPER = Path(__file__).with_name("helper.py")
"""What runs under the engine's own Python."""
HELPER_2 = Path(__file__).with_name("helper_2.py")
"""The same for engine 2; it needs the other one beside it."""

_SHEBANG_MOST = 4096


def interpreter_of(program: Path) -> list[str] | None:
    """Given the engine's program, return the command of its own Python. None when it has none (a standalone binary)."""
    try:
        with program.open("rb") as script:
            head = script.read(_SHEBANG_MOST)
    except OSError:
        return None
    if not head.startswith(b"#!"):
        return None
    lines = os.fsdecode(head).splitlines()
    command = lines[0][2:].split(maxsplit=1)
    if command and Path(command[0]).name == "sh" and len(lines) > 1:
        command = _trampoline(lines[1])
    elif command and Path(command[0]).name == "env":
        command = _from_environment(command[1:])
    if not command or not Path(command[0]).name.startswith(("python", "pypy")):
        return None
    return command


def _trampoline(line: str) -> list[str]:
    """Installers write `'''exec' /long/path/python "$0" "$@"` where the path does not fit into a first line."""
    try:
        words = shlex.split(line)
    except ValueError:
        return []
    return [words[1]] if len(words) > 1 and words[0] == "exec" else []


def _from_environment(arguments: list[str]) -> list[str]:
    words = [word for word in " ".join(arguments).split() if not word.startswith("-")]
    found = shutil.which(words[0]) if words else None
    return [found, *words[1:]] if found else []
