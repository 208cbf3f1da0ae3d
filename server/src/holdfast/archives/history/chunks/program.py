"""Which Python an engine program runs under."""

from pathlib import Path

from backup_engine.far import remote_talk

HELPER = Path(__file__).with_name("helper.py")
"""What runs under the engine's own Python."""
HELPER_2 = Path(__file__).with_name("helper_2.py")
"""The same for engine 2; it needs the other one beside it."""


def interpreter_of(program: Path) -> list[str] | None:
    """Given the engine's program, return the command of its own Python. None when it has none (a standalone binary)."""
    return remote_talk.interpreter_of(str(program))
