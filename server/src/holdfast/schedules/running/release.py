"""The second half of the tick: judges rows whose time has come, and queues those that may run."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import structlog
from sqlalchemy import Select, or_, select
from sqlalchemy.orm import Session

from holdfast.operations import pages
from holdfast.operations.kinds import Registry
from holdfast.operations.status import ACTIVE, Status
from holdfast.repositories import agent_target
from holdfast.repositories.models import Repository
from holdfast.schedules import store
from holdfast.schedules.models import Mode, Origin, Outcome, Reason, Schedule, ScheduleRun, WaitingFor
from holdfast.schedules.running import final_states
from holdfast.schedules.running.chains import enqueue, operations_of, stop
from holdfast.schedules.running.due import UNREADABLE, Done
from holdfast.schedules.running.plans import check_interval, opens_at, rules_of
from holdfast.schedules.running.row_facts import RowFacts, gather
from holdfast.schedules.running.run_decisions import Decision, End, Place, Release, Row, Wait, decide
from holdfast.schedules.running.steps import needs_backup
from holdfast.storage.bulk import flushed_connection, plain, update_many

log = structlog.get_logger("holdfast.schedules")

ROWS_AT_ONCE = 500
MACHINE_CHECK = timedelta(minutes=15)

COLUMNS = plain(*ScheduleRun.__table__.c)
NAMES = tuple(column.name for column in COLUMNS)
CHANGED = (
    "revision",
    "look_at",
    "waiting_for",
    "outcome",
    "reason",
    "reason_operation_id",
    "tries",
    "steps",
    "result",
    "error_key",
    "released_at",
    "settled_at",
)
"""The columns that a judgement may change."""


def release_rows(
    session: Session,
    registry: Registry,
    now: datetime,
    reachable: Collection[int] = (),
    only: Sequence[int] = (),
    most: int = ROWS_AT_ONCE,
) -> Done:
    """Judge rows that are due for it, and act on the verdicts, in one transaction.

    The rows are plain values, read and stored in one statement each.
    """
    statement = select(*COLUMNS).where(ScheduleRun.look_at <= now)
    if only:
        statement = statement.where(ScheduleRun.id.in_(only))
    else:
        tried_first = ScheduleRun.waiting_for == WaitingFor.CONNECTION
        statement = statement.where(or_(ScheduleRun.waiting_for.is_(None), ~tried_first))
    statement = statement.order_by(ScheduleRun.look_at).limit(most)  # the order of the index, as in `due`
    found = [dict(zip(NAMES, row, strict=True)) for row in _all(session, statement)]
    if not found:
        return Done()
    rows = cast("list[ScheduleRun]", [SimpleNamespace(**values) for values in found])
    _act(session, registry, rows, gather(session, rows, now, reachable))
    _store(session, found, [vars(row) for row in rows])
    return Done(rows=len(rows), more=len(rows) == most)


def _act(session: Session, registry: Registry, rows: Sequence[ScheduleRun], row_facts: RowFacts) -> None:
    released: list[ScheduleRun] = []
    for row in rows:
        schedule = row_facts.schedules[row.schedule_id]
        if row.outcome == Outcome.RAN and row.waiting_for != WaitingFor.RETRY:
            stop(session, row)
            continue
        match _decision_or_refusal(row, schedule, row_facts):
            case Release():
                released.append(row)
            case Wait(until) if row.outcome == Outcome.RAN:
                row.look_at = until  # a retry stays a retry, whatever else it has to wait for
            case Wait(until, waiting_for):
                row.look_at, row.waiting_for = until, _way_of_waiting(row, waiting_for, row_facts)
                row.reason_operation_id = _earlier_operation(session, row, row_facts)
            case End() as decision if row.outcome == Outcome.RAN:
                del decision
                final_states.settle(session, schedule, row, row_facts.now)
            case End() as decision:
                if decision.reason is Reason.OVERLAP:
                    decision = End(decision.outcome, decision.reason, _earlier_operation(session, row, row_facts))
                final_states.end(session, schedule, row, decision, row_facts.now)
    enqueue(session, registry, released, row_facts)


def _all(session: Session, statement: Select[Any]) -> Sequence[Any]:
    return flushed_connection(session).execute(statement.with_for_update(skip_locked=True)).all()


def _store(session: Session, before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> None:
    """Write the columns that have changed in any of the rows. Each one costs time, above all if it is indexed."""
    pairs = list(zip(before, after, strict=True))
    names = ["id", *(name for name in CHANGED if any(old[name] != new[name] for old, new in pairs))]
    update_many(session, ScheduleRun, [{name: new[name] for name in names} for new in after] if names[1:] else [])


def _way_of_waiting(row: ScheduleRun, waiting_for: WaitingFor, row_facts: RowFacts) -> WaitingFor:
    """Return what the row waits for: an ssh machine does not report to the service, so it has to be contacted."""
    repository = row_facts.repositories.get(row.repository_id)
    is_tried = waiting_for is WaitingFor.MACHINE and repository is not None and repository.execution_target == "ssh"
    return WaitingFor.CONNECTION if is_tried else waiting_for


# --- the judgement ----------------------------------------------------------------------------------------------------


def _decision_or_refusal(row: ScheduleRun, schedule: Schedule, row_facts: RowFacts) -> Decision:
    try:
        return decision_of(row, schedule, row_facts)
    except UNREADABLE:
        log.exception("a run of a schedule cannot be judged", schedule_id=schedule.id, row_id=row.id)
        return End(Outcome.SKIPPED, Reason.REFUSED)


def decision_of(row: ScheduleRun, schedule: Schedule, row_facts: RowFacts) -> Decision:
    is_manual = row.origin == Origin.MANUAL
    facts = Row(
        due_at=row.due_at,
        start_at=row.start_at,
        waiting_for=WaitingFor(row.waiting_for) if row.waiting_for else None,
        is_manual=is_manual,
        is_retry=row.outcome == Outcome.RAN,
    )
    respected = not is_manual or bool((row.options or {}).get("respect_windows"))
    rules = rules_of(schedule, paused=row_facts.paused)
    return decide(
        facts, rules, _place(row, schedule, row_facts), opens_at(schedule, respected=respected), row_facts.now
    )


def _place(row: ScheduleRun, schedule: Schedule, row_facts: RowFacts) -> Place:
    repository, target = row_facts.repositories.get(row.repository_id), row_facts.targets.get(row.repository_id)
    if repository is None or target is None:
        return Place(is_target=False)
    if not row_facts.are_targets and not store.matching(schedule, {target.id: target}):
        return Place(is_target=False)
    earlier = row_facts.earlier.get((row.schedule_id, row.repository_id))
    return Place(
        is_observed=repository.mode == "observe",
        is_set_up=repository.setup_state in ("ready", agent_target.UNVERIFIED),
        blackout=row_facts.in_blackout(row.due_at, target.labels)
        or row_facts.in_blackout(row_facts.now, target.labels),
        last_success=repository.last_backup if needs_backup(schedule.steps) else None,
        is_online=_is_online(schedule, repository, row_facts),
        machine_check=check_interval(schedule) if repository.execution_target == "ssh" else MACHINE_CHECK,
        has_earlier_run=earlier is not None and earlier.id != row.id and earlier.waiting_for != WaitingFor.RETRY,
    )


def _is_online(schedule: Schedule, repository: Repository, row_facts: RowFacts) -> bool:
    """Whether the repository's machine is online. Agents report this themselves.

    Ssh machines of availability schedules are contacted first; others are assumed to be online.
    """
    if repository.execution_target == "agent":
        return row_facts.agents.get(repository.agent_machine_id or 0) == "online"
    if repository.execution_target == "ssh" and schedule.schedule_mode == Mode.AVAILABILITY:
        return repository.id in row_facts.reachable
    return True


def _earlier_operation(session: Session, row: ScheduleRun, row_facts: RowFacts) -> int | None:
    """Return the operation of the earlier run that has not ended."""
    earlier = row_facts.earlier.get((row.schedule_id, row.repository_id))
    if earlier is None or earlier.id == row.id:
        return None
    ids = operations_of(earlier)
    active = (operation.id for operation in pages.by_ids(session, ids) if Status(operation.status) in ACTIVE)
    return min(active, default=ids[-1] if ids else None)
