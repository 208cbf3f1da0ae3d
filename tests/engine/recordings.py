"""What real engines wrote, as recorded by tools/record_engine_fixtures.py."""

import json
from dataclasses import dataclass
from pathlib import Path

from backup_engine.events import Event
from backup_engine.outcome import Accumulator, Outcome, conclude
from backup_engine.parse import parse_line
from backup_engine.render import log_line

RECORDED = Path(__file__).parent / "recorded"
VERSIONS = tuple(sorted(folder.name for folder in RECORDED.iterdir() if folder.name.startswith("1.")))
"""Versions of engine 1; the output of engine 2 is covered by `test_recorded_engine_2`."""


@dataclass(frozen=True)
class Recording:
    stdout: bytes
    stderr: bytes
    code: int | None
    signal: int | None
    argv: tuple[str, ...]

    @property
    def events(self) -> tuple[Event, ...]:
        return tuple(parse_line(line) for line in self.stderr.splitlines())

    @property
    def accumulator(self) -> Accumulator:
        return Accumulator().add_all(self.events)

    @property
    def log(self) -> tuple[str, ...]:
        return tuple(line for event in self.events for line in log_line(event))

    def outcome(self, *, cancel_requested: bool = False, passphrase_given: bool = True) -> Outcome:
        return conclude(self.code, self.signal, self.accumulator, cancel_requested, passphrase_given=passphrase_given)


def recording(version: str, case: str) -> Recording:
    folder = RECORDED / version / case
    end = json.loads((folder / "exit.json").read_text())
    command = json.loads((folder / "command.json").read_text())
    return Recording(
        (folder / "stdout").read_bytes(),
        (folder / "stderr").read_bytes(),
        end["code"],
        end["signal"],
        tuple(command["argv"]),
    )


def cases(version: str) -> set[str]:
    return {folder.name for folder in (RECORDED / version).iterdir()}
