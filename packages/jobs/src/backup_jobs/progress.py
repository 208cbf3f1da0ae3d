"""Compute progress from the engine's events."""

from collections.abc import Sequence
from typing import Any

from backup_engine.events import ArchiveProgress, Event, ProgressPercent
from backup_engine.expected_size import measured
from backup_jobs.host import Host
from backup_jobs.work import readable


class PhaseProgress:
    """Percentage across the measured phases of a run. All phases count equally, as their durations are not known."""

    def __init__(self, host: Host, phases: Sequence[str]) -> None:
        self._host = host
        self._phases = {msgid: number for number, msgid in enumerate(phases)}
        self._reached = 0.0

    def on_event(self, event: Event) -> None:
        if not isinstance(event, ProgressPercent) or event.finished:
            return
        number = self._phases.get(event.msgid or "")
        if number is None or not event.total or event.current is None:
            return
        done = (number + min(1.0, event.current / event.total)) * 100 / len(self._phases)
        self._reached = max(self._reached, min(99.0, round(done, 1)))
        self._host.report(
            progress_percent=self._reached,
            current=event.current,
            total=event.total,
            message=readable(event.message).strip(),
        )


class BackupProgress:
    """Percentage and time remaining, relative to the size of the last complete backup."""

    def __init__(self, host: Host, expected: int | None) -> None:
        self._host = host
        self._expected = expected
        self._began: float | None = None

    def on_event(self, event: Event) -> None:
        if not isinstance(event, ArchiveProgress) or event.finished:
            return
        size = event.original_size
        speed = self._speed(event.time, size)
        values: dict[str, Any] = {
            "nfiles": event.nfiles,
            "original_size": size,
            "compressed_size": event.compressed_size,
            "deduplicated_size": event.deduplicated_size,
            "current_file": readable(event.path or ""),
            "backup_speed": speed,
            "total_expected_size": self._expected,
        }
        if self._expected and size is not None:
            values.update(measured(size, self._expected, speed))
        self._host.report(**values)

    def _speed(self, time: float | None, size: int | None) -> int | None:
        if time is None or size is None:
            return None
        if self._began is None:
            self._began = time
        return round(size / (time - self._began)) if time > self._began else None
