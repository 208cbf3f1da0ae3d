"""Run the command line in this process, as on a terminal or piped."""

import io
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from holdfast.entry.main import cli


class Screen(io.StringIO):
    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


@dataclass(frozen=True, slots=True)
class Shown:
    code: int
    out: str
    err: str


def run(monkeypatch: pytest.MonkeyPatch, *words: str, is_terminal: bool, columns: int = 80) -> Shown:
    """Run a command without any input."""
    out, err = Screen(is_terminal=is_terminal), Screen(is_terminal=is_terminal)
    with monkeypatch.context() as patched:
        patched.setenv("COLUMNS", str(columns))
        patched.setenv("TERM", "xterm")
        patched.setattr(sys, "stdout", out)
        patched.setattr(sys, "stderr", err)
        patched.setattr(sys, "stdin", io.StringIO())
        code = _called(words)
    return Shown(code, out.getvalue(), err.getvalue())


def _called(words: Sequence[str]) -> int:
    try:
        cli(list(words))
    except SystemExit as ended:
        return int(ended.code or 0)
    raise AssertionError("a command ends with an exit code")
