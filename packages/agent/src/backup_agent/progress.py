"""How far the engine has come, as messages of the contract."""

from collections.abc import Callable, Sequence

from backup_agent.job_work import readable
from backup_engine.events import ArchiveProgress, Event, ProgressPercent
from backup_protocol import Progress

Report = Callable[[Progress], None]


class BackupProgress:
    """Percent and time left, against the size of the last complete backup."""

    def __init__(self, report: Report, expected: int | None) -> None:
        self._report = report
        self._expected = expected
        self._began: float | None = None

    def hear(self, event: Event) -> None:
        if not isinstance(event, ArchiveProgress) or event.finished:
            return
        size = event.original_size
        speed = self._speed(event.time, size)
        percent = left = None
        if self._expected and size is not None:
            percent = round(min(99.0, size * 100 / self._expected), 1)
            left = max(0, round((self._expected - size) / speed)) if speed else None
        self._report(
            Progress(
                progress_percent=percent,
                current_file=readable(event.path or "")[:4096],
                original_size=size,
                compressed_size=event.compressed_size,
                deduplicated_size=event.deduplicated_size,
                nfiles=event.nfiles,
                backup_speed=speed,
                estimated_time_remaining=left,
            )
        )

    def _speed(self, time: float | None, size: int | None) -> int | None:
        if time is None or size is None:
            return None
        if self._began is None:
            self._began = time
        return round(size / (time - self._began)) if time > self._began else None


class PhaseProgress:
    """Percent of a run with several measured phases, each an equal part of the whole."""

    def __init__(self, report: Report, phases: Sequence[str]) -> None:
        self._report = report
        self._phases = {msgid: number for number, msgid in enumerate(phases)}
        self._reached = 0.0

    def hear(self, event: Event) -> None:
        if not isinstance(event, ProgressPercent) or event.finished:
            return
        number = self._phases.get(event.msgid or "")
        if number is None or not event.total or event.current is None:
            return
        done = (number + min(1.0, event.current / event.total)) * 100 / len(self._phases)
        self._reached = max(self._reached, min(99.0, round(done, 1)))
        self._report(Progress(progress_percent=self._reached, message=readable(event.message).strip()[:1000]))
