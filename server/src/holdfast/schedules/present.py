"""Schedules and their runs as clients see them; a caller who may see only some targets sees only those."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from holdfast.repositories import store as repositories
from holdfast.schedules import store
from holdfast.schedules.answer_schemas import BlackoutAnswer, RunSummary, ScheduleAnswer, ScheduleTarget
from holdfast.schedules.calendar import preview
from holdfast.schedules.calendar.blackouts import Blackout as BlackoutDays
from holdfast.schedules.calendar.entries import Planned
from holdfast.schedules.calendar.plan import INSTANT
from holdfast.schedules.calendar.preview import Conditions, FirstStarts, Place
from holdfast.schedules.models import Blackout, Mode, Schedule, ScheduleRun
from holdfast.schedules.running.plans import calendar_of, windows_of
from holdfast.schedules.running.run_results import worst
from holdfast.schedules.step_schemas import Targets
from holdfast.schedules.store import Target
from holdfast.schedules.visible_schedules import VisibleSchedules

COPIED = [
    name
    for name in ScheduleAnswer.model_fields
    if name
    not in (
        "targets",
        "exclude_repository_ids",
        "repositories",
        "next_run",
        "last_run",
        "last_result",
        "waiting",
        "waiting_count",
        "explained",
        "steps",
    )
]
RUN_COPIED = [name for name in RunSummary.model_fields if name not in ("repository_id", "repository", "schedule_name")]
FIRES_LOOKED_AT = 50
WAITING_SHOWN = 20


@frozen
class Presented:
    """Turns schedules into responses for one caller."""

    session: Session
    seen: VisibleSchedules
    now: datetime

    def listed(self, schedules: Sequence[Schedule], *, is_paused: bool) -> bytes:
        """Return many schedules: `Schedules` as JSON. They are written one by one, since other threads wait while a
        text is produced, and each target is written only once, since many schedules share it.
        """
        known: dict[int, str] = {}
        written = []
        for schedule, answer in zip(schedules, self._answers(schedules), strict=True):
            targets = self.seen.targets(schedule)
            for target in targets:
                if target.id not in known:
                    known[target.id] = ScheduleTarget(id=target.id, name=target.name).model_dump_json()
            text = answer.model_dump_json(by_alias=True, exclude={"repositories"})
            written.append(f'{text[:-1]},"repositories":[{",".join([known[target.id] for target in targets])}]}}')
        return f'{{"schedules":[{",".join(written)}],"paused":{json.dumps(is_paused)}}}'.encode()

    def one(self, schedule: Schedule) -> ScheduleAnswer:
        (answer,) = self._answers([schedule])
        targets = self.seen.targets(schedule)
        answer.repositories = [ScheduleTarget(id=target.id, name=target.name) for target in targets]
        return answer

    def _answers(self, schedules: Sequence[Schedule]) -> Iterator[ScheduleAnswer]:
        """Yield the responses without their targets."""
        ids = [schedule.id for schedule in schedules]
        newest = store.newest_of(self.session, ids, self.seen.visible)
        blackouts = days_of(store.blackouts(self.session))
        ended = store.results_of(self.session, (row.run_id for row in newest.values() if row.run_id), self.seen.visible)
        waiting, counts = self._waiting(ids), store.count_waiting(self.session, ids, self.seen.visible)
        for schedule in schedules:
            its, last = waiting.get(schedule.id, []), newest.get(schedule.id)
            yield self._answer(schedule, last, ended, its, counts.get(schedule.id, 0), blackouts)

    def _answer(
        self,
        schedule: Schedule,
        newest: ScheduleRun | None,
        ended: Mapping[str, Collection[str]],
        waiting: list[RunSummary],
        waiting_count: int,
        blackouts: Sequence[BlackoutDays],
    ) -> ScheduleAnswer:
        return ScheduleAnswer(
            **{name: getattr(schedule, name) for name in COPIED},
            steps=[_shown(step) for step in schedule.steps],
            explained=preview.explain(calendar_of(schedule)),
            targets=self._visible_targets(schedule),
            exclude_repository_ids=list(filter(self.seen.includes, schedule.exclude_repository_ids or ())),
            repositories=[],
            next_run=next_start(schedule, self.seen.targets(schedule), blackouts, self.now),
            last_run=newest.released_at if newest else None,
            last_result=worst(ended.get(newest.run_id or "", ())) if newest else None,
            waiting=waiting,
            waiting_count=waiting_count,
        )

    def _visible_targets(self, schedule: Schedule) -> Targets:
        stored = dict(schedule.targets)
        if "repository_ids" in stored:
            stored["repository_ids"] = list(filter(self.seen.includes, stored["repository_ids"]))
        return Targets(**stored)

    def _waiting(self, ids: Sequence[int]) -> dict[int, list[RunSummary]]:
        rows = store.oldest_waiting(self.session, ids, self.seen.visible, WAITING_SHOWN)
        found: dict[int, list[RunSummary]] = {}
        for summary in summaries(self.session, rows):
            found.setdefault(summary.schedule_id, []).append(summary)
        return found


def next_start(
    schedule: Schedule, targets: Sequence[Target], blackouts: Sequence[BlackoutDays], now: datetime
) -> datetime | None:
    """Return the next due time that will start work."""
    if not schedule.enabled or schedule.deleted_at is not None:
        return None
    if schedule.schedule_mode == Mode.AVAILABILITY:
        return schedule.next_due_at
    starts = FirstStarts(_conditions(schedule, blackouts), targets)
    if schedule.snoozed_until is not None and schedule.snoozed_until > now:
        return starts.after(schedule.snoozed_until - INSTANT, 2)
    return starts.after(now, FIRES_LOOKED_AT if blackouts else 1)


def planned(schedule: Schedule, places: Sequence[Place], blackouts: Sequence[BlackoutDays]) -> Planned:
    kinds = [str(step["kind"]) for step in schedule.steps]
    return Planned(
        schedule.id,
        schedule.name,
        step_names(schedule.steps),
        "backup" if "backup" in kinds else kinds[0],
        _conditions(schedule, blackouts),
        places,
    )


def place(target: Target) -> Place:
    return Place(target.id, target.uuid, target.name, target.labels)


def _conditions(schedule: Schedule, blackouts: Sequence[BlackoutDays]) -> Conditions:
    return Conditions(
        calendar_of(schedule),
        schedule.uuid,
        schedule.spread_minutes,
        windows_of(schedule),
        blackouts,
        schedule.snoozed_until,
    )


def days_of(stored: Sequence[Blackout]) -> list[BlackoutDays]:
    return [
        BlackoutDays(each.name, each.first_day, each.last_day, each.timezone, each.yearly, each.labels or {})
        for each in stored
    ]


def _shown(step: Mapping[str, Any]) -> dict[str, Any]:
    """Return the step without the name under which its secrets are kept, only showing that it has some."""
    shown = {name: value for name, value in step.items() if name != "secret_id"}
    return {**shown, "has_secrets": True} if "secret_id" in step else shown


def step_names(steps: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return each step in a word or two."""
    return [_step_name(step) for step in steps]


def _step_name(step: Mapping[str, Any]) -> str:
    if step["kind"] == "script":
        return f"script {step.get('when', 'before')}"
    every = step.get("every_days")
    return str(step["kind"]) if not every or every == 1 else f"{step['kind']} (every {every} days)"


def summaries(session: Session, rows: Sequence[ScheduleRun]) -> list[RunSummary]:
    names = repositories.names(session, {row.repository_id for row in rows if row.repository_id})
    schedules = store.by_ids(session, {row.schedule_id for row in rows})
    return [RunSummary(**run_values(row, names, schedules)) for row in rows]


def run_values(row: ScheduleRun, names: Mapping[int, str], schedules: Mapping[int, Schedule]) -> dict[str, Any]:
    schedule = schedules.get(row.schedule_id)
    return {
        **{name: getattr(row, name) for name in RUN_COPIED},
        "repository_id": row.repository_id or None,
        "repository": names.get(row.repository_id),
        "schedule_name": schedule.name if schedule else "",
    }


def blackout_answer(stored: Blackout) -> BlackoutAnswer:
    return BlackoutAnswer(**{name: getattr(stored, name) for name in BlackoutAnswer.model_fields})
