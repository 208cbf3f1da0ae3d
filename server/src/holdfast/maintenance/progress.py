"""Percent of an engine run that has several measured phases."""

from collections.abc import Sequence

from backup_engine.events import Event, ProgressPercent
from holdfast.operations.context import Context
from holdfast.repositories.work import readable


class PhaseProgress:
    """Each phase is an equal part of the whole: how long one takes is not known before."""

    def __init__(self, context: Context, phases: Sequence[str]) -> None:
        self._context = context
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
        self._context.report(
            progress_percent=self._reached,
            current=event.current,
            total=event.total,
            message=readable(event.message).strip(),
        )
