"""Compute progress of the extraction."""

from collections.abc import Callable
from typing import Any

from backup_engine.events import Event, ProgressPercent
from backup_jobs.work import readable

EXTRACTING = "extract"
MOST_PERCENT = 99.0


class ExtractProgress:
    """Reports bytes, speed and percentage. The time remaining is not stored; it is computed from them on request."""

    def __init__(self, report: Callable[..., None]) -> None:
        self._report = report
        self._began: tuple[float, int] | None = None

    def on_event(self, event: Event) -> None:
        if not isinstance(event, ProgressPercent) or event.msgid != EXTRACTING or event.finished or not event.total:
            return
        restored = event.current or 0
        values: dict[str, Any] = {
            "restored_size": restored,
            "original_size": event.total,
            "restore_speed": self._speed(event.time, restored),
            "progress_percent": round(min(MOST_PERCENT, restored * 100 / event.total), 1),
        }
        if event.info:
            values["current_file"] = readable(event.info[0])
        self._report(**values)

    def _speed(self, time: float | None, restored: int) -> int | None:
        if time is None:
            return None
        if self._began is None:
            self._began = (time, restored)
        began, already = self._began
        return round((restored - already) / (time - began)) if time > began else None


def estimated_time_remaining(original: int | None, restored: int | None, speed: int | None) -> int | None:
    """Seconds until extraction is complete, from sizes and speed; None if one of them is unknown."""
    if original is None or restored is None or not speed:
        return None
    return max(0, round((original - restored) / speed))
