"""Collect what the processes of a test know, for the message of a wait that timed out: on a remote machine nobody can
look afterwards.
"""

import contextlib
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from tests.support.processes import processes_naming

MOST_LINES = 12
LONGEST_LINE = 300


class Witness(Protocol):
    def account(self) -> str:
        """What this witness knows, in a few lines."""


_witnesses: "weakref.WeakSet[Witness]" = weakref.WeakSet()


def call(witness: Witness) -> None:
    """Query this witness, as long as it exists, when a wait times out."""
    _witnesses.add(witness)


def accounts() -> str:
    """What all witnesses know. A witness that fails reports why, and never hides the wait that failed."""
    told = []
    for witness in list(_witnesses):
        try:
            told.append(witness.account())
        except Exception as error:  # noqa: BLE001
            told.append(f"{type(witness).__name__} failed: {error!r}")
    return "".join(f"\n--- {each}" for each in told if each)


def end_of_file(file: Path, unlike: str = "DEBUG") -> str:
    """The last lines of a log, except those that contain a word."""
    with contextlib.suppress(OSError), file.open("rb") as stream:
        stream.seek(max(0, stream.seek(0, 2) - 65_536))
        lines = stream.read().decode("utf-8", "replace").splitlines()
        return cut(line for line in lines if unlike not in line)
    return "(none)"


def cut(lines: Iterable[str]) -> str:
    return "\n".join(line[:LONGEST_LINE] for line in list(lines)[-MOST_LINES:])


def processes_of(text: str) -> str:
    """The live processes whose arguments contain a text, each with what it waits for in the kernel."""
    found = processes_naming(text)
    return cut(f"{pid} [{_waits_for(pid)}] {words}" for pid, words in sorted(found.items())) or "(no process)"


def _waits_for(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/wchan").read_text()
    return "gone"
