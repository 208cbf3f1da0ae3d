"""Queues rows that may run, each as a chain of operations."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, cast

import structlog
from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from holdfast.access.caller import Caller
from holdfast.errors import NotFound, Unprocessable
from holdfast.kit.request_priority import give_way
from holdfast.operations import pages, queue, transitions
from holdfast.operations.kinds import Kind, Registry
from holdfast.operations.queue import Link, Subject
from holdfast.operations.queue import Origin as Asked
from holdfast.operations.status import Needs, Status, Trigger
from holdfast.repositories import store as repositories
from holdfast.repositories.evidence_times import unless_ahead
from holdfast.repositories.models import Repository
from holdfast.schedules.models import OnWindowClose, Origin, Outcome, Reason, Schedule, ScheduleRun
from holdfast.schedules.running import final_states, once_scripts, retry
from holdfast.schedules.running.due import UNREADABLE
from holdfast.schedules.running.plans import closes_at, gap_of, timetable, upload_limit
from holdfast.schedules.running.row_facts import EVIDENCE, RowFacts
from holdfast.schedules.running.run_decisions import End
from holdfast.schedules.running.steps import SCRIPT, PlannedStep, Surroundings, plan

log = structlog.get_logger("holdfast.schedules")

TRIGGERED_BY = "schedule"


def enqueue(
    session: Session,
    registry: Registry,
    rows: Iterable[ScheduleRun],
    row_facts: RowFacts,
    caller: Caller | None = None,
) -> None:
    """Queue the operations of all these rows at once, and record them in the rows."""
    left = list(rows)
    if not any(once_scripts.steps_of(row_facts.schedules[row.schedule_id], SCRIPT) for row in left):
        _enqueue(session, registry, left, row_facts, {}, caller)
        return
    left = once_scripts.lock_schedules(session, left, row_facts)
    while left:
        begun = once_scripts.started_operations(session, left, row_facts)
        now, left = once_scripts.queueable_now(left, row_facts, begun)
        _enqueue(session, registry, now, row_facts, begun, caller)


def _enqueue(
    session: Session,
    registry: Registry,
    rows: Iterable[ScheduleRun],
    row_facts: RowFacts,
    begun: Mapping[str, Sequence[int]],
    caller: Caller | None,
) -> None:
    """Queue the chains of the rows. `begun` are operations of once-only scripts by run, on which these may depend."""
    chains: list[list[Link]] = []
    chained: list[tuple[ScheduleRun, Sequence[PlannedStep], list[int]]] = []
    for row in rows:
        give_way()
        schedule, repository = row_facts.schedules[row.schedule_id], row_facts.repositories[row.repository_id]
        if row.outcome == Outcome.RAN:
            _repeat(session, registry, row, schedule, repository, row_facts.now)
            continue
        try:
            prepared = _Preparing(session, registry, row, schedule, repository, row_facts).prepared()
            planned = [step for step, _, _ in prepared]
            shared = _shared(planned, begun.get(row.run_id or "", ()))
            chain = _chain(row, schedule, repository, prepared, caller, shared)
        except (NotFound, Unprocessable) as refusal:  # such as a script that was deleted in the meantime
            log.warning("a step of a schedule is refused", schedule_id=schedule.id, reason=refusal.key)
            row.error_key = refusal.key
            final_states.end(session, schedule, row, End(Outcome.SKIPPED, Reason.REFUSED), row_facts.now)
            continue
        except UNREADABLE:
            log.exception("the steps of a schedule could not be prepared", schedule_id=schedule.id)
            row.error_key = "schedules.bad_steps"
            final_states.end(session, schedule, row, End(Outcome.SKIPPED, Reason.REFUSED), row_facts.now)
            continue
        if not chain and not shared:
            row.steps = [_noted(step, None) for step in planned]
            final_states.end(session, schedule, row, End(Outcome.SKIPPED, Reason.NOTHING_DUE), row_facts.now)
            continue
        chains.append(chain)
        chained.append((row, planned, shared))
    for (row, steps, shared), ids in zip(chained, queue.enqueue_chains(session, chains), strict=True):
        numbers = iter([*shared, *ids])
        row.steps = [_noted(step, next(numbers) if step.operation else None) for step in steps]
        _mark_released(row, row_facts.schedules[row.schedule_id], row_facts.now)
    once_scripts.settle_dependants_of_ended(session, {shared[-1] for _, _, shared in chained if shared})


def _shared(planned: Sequence[PlannedStep], begun: Sequence[int]) -> list[int]:
    """Return the operation of each once-only step, if the run already has one.

    Because of an edit, there may be more or fewer steps than operations.
    """
    number = sum(step.once for step in planned) if begun else 0
    return [begun[min(place, len(begun) - 1)] for place in range(number)]


Prepared = list[tuple[PlannedStep, Kind | None, dict[str, Any]]]
"""The steps of a run, each with the kind of its operation and its parameters."""


@frozen
class _Preparing:
    """Prepares the steps of one run from its schedule."""

    session: Session
    registry: Registry
    row: ScheduleRun
    schedule: Schedule
    repository: Repository
    row_facts: RowFacts

    def prepared(self) -> Prepared:
        """Return the prepared steps. Most runs have the same ones, which are then prepared only once."""
        key = self._key()
        found = self.row_facts.prepared.get(key) if key is not None else None
        if found is not None:
            return cast("Prepared", found)
        prepared: Prepared = []
        for step in self._planned():
            if step.operation is None:
                prepared.append((step, None, {}))
                continue
            kind = self.registry.kinds[step.operation]
            params = kind.params.model_validate(step.params).model_dump(mode="json", exclude_none=True)
            prepared.append((step, kind, params))
        if key is not None:
            self.row_facts.prepared[key] = prepared
        return prepared

    def _key(self) -> Any:
        """Return a key that is equal for runs with the same steps; None if this run may have steps of its own."""
        schedule, repository = self.schedule, self.repository
        if schedule.windows or self.row.options or not all(map(_is_the_same_each_time, schedule.steps)):
            return None
        of_schedule = repr(schedule.steps), schedule.archive_name_template, repository.archive_name_template
        return *of_schedule, self._has_mirror, self._has_databases

    @property
    def _has_mirror(self) -> bool:
        return self.repository.id in self.row_facts.mirrored

    @property
    def _has_databases(self) -> bool:
        return self.repository.id in self.row_facts.dumped

    def _planned(self) -> list[PlannedStep]:
        row, schedule, repository, now = self.row, self.schedule, self.repository, self.row_facts.now
        asked = (row.options or {}).get("steps")
        wanted = [step for step in schedule.steps if asked is None or step["kind"] in asked]
        surroundings = Surroundings(
            due_at=row.due_at,
            gap=gap_of(schedule),
            evidence={kind: unless_ahead(getattr(repository, name), now) for kind, name in EVIDENCE.items()},
            template=schedule.archive_name_template,
            repository_template=repository.archive_name_template,
            upload_kib=upload_limit(schedule, now) if repository.engine_version == 1 else None,
            has_mirror=self._has_mirror,
            has_databases=self._has_databases,
            bandwidth=timetable(schedule, now) if self._has_mirror else None,
            completed=self._completed,
        )
        return plan(wanted, surroundings, all_due=asked is not None)

    def _completed(self, kind: str, step: Mapping[str, Any]) -> Mapping[str, Any]:
        rules = self.registry.kinds[kind].step_rules
        assert rules is not None
        return rules.params(self.session, step)


def _is_the_same_each_time(step: Mapping[str, Any]) -> bool:
    """Whether the step depends neither on the due time nor on what happened before."""
    return step["kind"] != SCRIPT and not step.get("every_days")


def _chain(
    row: ScheduleRun,
    schedule: Schedule,
    repository: Repository,
    prepared: Prepared,
    caller: Caller | None,
    shared: Sequence[int],
) -> list[Link]:
    """Return a row's chain. `shared` are operations of first steps, queued by another repository's chain."""
    subject = repositories.subject(repository)
    chain = []
    for step, kind, params in prepared:
        if kind is None or (step.once and shared):
            continue
        after = step.after - len(shared) if step.after is not None else None
        is_outside = after is not None and after < 0
        asked = Asked(
            Trigger.MANUAL if caller is not None else Trigger.SCHEDULE,
            caller.user_id if caller is not None else None,
            caller.username if caller is not None else TRIGGERED_BY,
            run_id=row.run_id,
            depends_on_id=shared[after] if after is not None and is_outside else None,
            depends_needs=step.needs,
            schedule_id=schedule.id,
            schedule_name=schedule.name,
        )
        executed_by = None if step.once else _executed_by(kind, params, subject)  # not of a single repository
        chain.append(Link(kind, params, asked, executed_by, None if is_outside else after))
    return chain


def _executed_by(kind: Kind, params: Mapping[str, Any], subject: Subject) -> Subject:
    return kind.step_rules.subject(params, subject) if kind.step_rules is not None else subject


def _noted(step: PlannedStep, operation_id: int | None) -> dict[str, Any]:
    return {
        "kind": step.kind,
        "operation_id": operation_id,
        "status": str(Status.PENDING) if operation_id else None,
        "error_key": None,
        "skipped": step.left_out,
        "next_at": step.next_at.isoformat() if step.next_at else None,
        **({"warns": True} if step.warns else {}),
        **({"undoes": True} if step.undoes else {}),
        **({"once": True} if step.once else {}),
    }


def _mark_released(row: ScheduleRun, schedule: Schedule, now: datetime) -> None:
    row.outcome, row.waiting_for, row.reason, row.reason_operation_id = Outcome.RAN, None, None, None
    row.released_at, row.revision, row.tries = row.released_at or now, schedule.revision, row.tries + 1
    row.result = row.error_key = None
    respected = row.origin != Origin.MANUAL or bool((row.options or {}).get("respect_windows"))
    stops = schedule.on_window_close == OnWindowClose.STOP and respected
    row.look_at = closes_at(schedule, now) if stops else None


def _repeat(
    session: Session, registry: Registry, row: ScheduleRun, schedule: Schedule, repository: Repository, now: datetime
) -> None:
    """Queue what failed, and what was skipped because of it, again in the same run."""
    before = {operation.id: operation for operation in pages.by_ids(session, operations_of(row))}
    steps = [step for step in row.steps if step.get("operation_id") in before and not step.get("once")]
    found = [before[step["operation_id"]] for step in steps]
    again = retry.to_repeat([(operation.kind, operation.status, operation.skip_reason) for operation in found])
    places = {found[place].id: number for number, place in enumerate(again)}
    chain = []
    for place in again:
        old = found[place]
        asked = Asked(
            Trigger.SCHEDULE,
            old.triggered_by_id,
            old.triggered_by,
            run_id=row.run_id,
            depends_needs=Needs(old.depends_needs),
            retry_of=old.id,
            schedule_id=schedule.id,
            schedule_name=schedule.name,
        )
        after = places.get(old.depends_on_id or 0)
        kind = registry.kinds[old.kind]
        subject = _executed_by(kind, old.params, repositories.subject(repository))
        chain.append(Link(kind, dict(old.params), asked, subject, after))
    ids = queue.enqueue_chains(session, [chain])[0] if chain else []
    renewed = {found[place].id: number for place, number in zip(again, ids, strict=True)}
    row.steps = [
        {**step, "operation_id": renewed[number], "status": str(Status.PENDING), "error_key": None}
        if (number := step.get("operation_id")) in renewed
        else step
        for step in row.steps
    ]
    _mark_released(row, schedule, now)


def operations_of(row: ScheduleRun) -> list[int]:
    """Return the newest operation of each step, in the order of the steps."""
    return [step["operation_id"] for step in row.steps or () if step.get("operation_id")]


def stop(session: Session, row: ScheduleRun) -> None:
    """Cancel what has not ended, because the window has closed or a person cancels the run. The newest is cancelled
    first, so that nothing is skipped instead.

    A script that always runs after the backup still runs if its turn has not come: it undoes what an earlier one did. A
    once-only script continues, because other repositories need it.
    """
    shared = {step["operation_id"] for step in row.steps if step.get("once")}
    undoing = {step["operation_id"] for step in row.steps if step.get("undoes") and step.get("operation_id")}
    waiting = {found.id for found in pages.by_ids(session, undoing) if found.status == Status.PENDING}
    for number in sorted(set(operations_of(row)) - waiting - shared, reverse=True):
        transitions.request_cancel(session, number)
    row.look_at = None
