"""The Python that an engine program runs under, and the helpers that run under it."""

from pathlib import Path

from backup_engine.chunks.commands import HELPER, HELPER_2
from backup_engine.far import remote_helper

__all__ = ["HELPER", "HELPER_2", "interpreter_of"]


def interpreter_of(program: Path) -> list[str] | None:
    """Given the engine's program, return the command of its own Python; None if it has none (a standalone binary)."""
    return remote_helper.interpreter_of(str(program))
