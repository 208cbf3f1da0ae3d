"""Reads rclone's messages during a run: JSON lines with statistics and the result for each file."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from backup_engine.frozen import frozen
from backup_engine.redact import Redactor

MOST_COMPLAINTS = 50
COMPLAINTS = frozenset({"error", "critical", "fatal"})
NO_HASH = "No common hash found"
HARMLESS = (NO_HASH, "Can't retry any of the errors", "Attempt ")


@frozen
class Progress:
    bytes: int = 0
    total_bytes: int = 0
    speed: float = 0.0
    eta_seconds: int | None = None
    transfers: int = 0
    deletes: int = 0
    checks: int = 0


@dataclass
class RcloneLog:
    """Reads the log of one run. `on_progress` is called every second with the progress."""

    redactor: Redactor
    on_progress: Callable[[Progress], None] | None = None
    progress: Progress = field(default_factory=Progress)
    complaints: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    """The complaints without the names of the files they are about."""
    compared_hashes: bool = True
    is_quiet: bool = False
    """Nothing is written to the operation's log."""

    def on_line(self, raw: bytes) -> list[str]:
        """Given a line of rclone, return the lines for the operation's log."""
        lines = self._take_in(raw)
        return [] if self.is_quiet else lines

    def _take_in(self, raw: bytes) -> list[str]:
        text = raw.decode("utf-8", "replace").strip()
        if not text:
            return []
        record = _record(text)
        if record is None:
            return self._complain(self.redactor.redact(text), self.redactor.redact(text))
        if isinstance(record.get("stats"), dict):
            self._measure(record["stats"])
            return []
        message = self.redactor.redact(_sentence(record))
        if NO_HASH in message:
            self.compared_hashes = False
        if record.get("level") in COMPLAINTS and not any(word in message for word in HARMLESS):
            return self._complain(message, self.redactor.redact(str(record.get("msg") or "")))
        return [message]

    def read_all(self, stream: bytes) -> "RcloneLog":
        for line in stream.split(b"\n"):
            self.on_line(line)
        return self

    def _complain(self, message: str, reason: str) -> list[str]:
        if len(self.complaints) < MOST_COMPLAINTS:
            self.complaints.append(message)
            self.reasons.append(reason)
        return [message]

    def _measure(self, stats: dict[str, Any]) -> None:
        eta = stats.get("eta")
        self.progress = Progress(
            bytes=_number(stats.get("bytes")),
            total_bytes=_number(stats.get("totalBytes")),
            speed=float(stats.get("speed") or 0.0),
            eta_seconds=_number(eta) if eta is not None else None,
            transfers=_number(stats.get("transfers")),
            deletes=_number(stats.get("deletes")),
            checks=_number(stats.get("checks")),
        )
        if self.on_progress is not None:
            self.on_progress(self.progress)


def _record(text: str) -> dict[str, Any] | None:
    """None for a line that is not JSON: rclone uses such a line for the reason why it ended."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _sentence(record: dict[str, Any]) -> str:
    message, subject = str(record.get("msg") or "").strip(), str(record.get("object") or "")
    return f"{subject}: {message}" if subject else message


def _number(value: Any) -> int:
    return int(value) if isinstance(value, int | float) else 0
