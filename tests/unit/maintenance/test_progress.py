"""The percentage over several phases."""

from typing import Any, cast

from backup_engine.events import Event, LogMessage, ProgressPercent
from backup_jobs.progress import PhaseProgress
from holdfast.operations.context import Context


class Reports:
    """Takes the place of the context for reports of progress."""

    def __init__(self) -> None:
        self.values: list[dict[str, Any]] = []

    def report(self, **progress: Any) -> None:
        self.values.append(progress)


def percents(*events: Event) -> list[float]:
    reports = Reports()
    progress = PhaseProgress(cast("Context", reports), ("first", "second"))
    for event in events:
        progress.on_event(event)
    return [value["progress_percent"] for value in reports.values]


def at(phase: str, current: int | None, total: int | None, *, finished: bool = False) -> ProgressPercent:
    return ProgressPercent(msgid=phase, current=current, total=total, finished=finished)


def test_each_phase_is_an_equal_part() -> None:
    assert percents(at("first", 1, 2), at("first", 2, 2), at("second", 1, 2)) == [25.0, 50.0, 75.0]


def test_the_percentage_never_decreases_and_stays_below_100() -> None:
    assert percents(at("second", 3, 4), at("first", 1, 4), at("second", 9, 4)) == [87.5, 87.5, 99.0]


def test_events_outside_measured_phases_report_nothing() -> None:
    unknown = LogMessage("INFO", "borg", None, "hello")

    assert percents(at("third", 1, 2), at("first", None, 2), at("first", 1, 0), at("first", 2, 2, finished=True)) == []
    assert percents(unknown) == []
