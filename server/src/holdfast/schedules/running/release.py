"""The second half of the tick: rows whose time has come are judged, and those that may run enter the queue."""

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import structlog
from sqlalchemy import column, or_, select, table
from sqlalchemy.orm import Session, load_only

from holdfast.access.caller import Caller
from holdfast.errors import Conflict, NotFound, Unprocessable
from holdfast.operations import pages, queue, transitions
from holdfast.operations.kinds import Kind, Registry
from holdfast.operations.queue import Link, Subject
from holdfast.operations.queue import Origin as Asked
from holdfast.operations.status import ACTIVE, Needs, Status, Trigger
from holdfast.repositories import agent_target
from holdfast.repositories import store as repositories
from holdfast.repositories.models import Repository
from holdfast.schedules import store
from holdfast.schedules.models import Mode, OnWindowClose, Origin, Outcome, Reason, Schedule, ScheduleRun, WaitingFor
from holdfast.schedules.running import ended, retry
from holdfast.schedules.running.due import UNREADABLE, Done
from holdfast.schedules.running.judge import End, Place, Release, Row, Verdict, Wait, judge
from holdfast.schedules.running.plans import (
    Covered,
    check_interval,
    closes_at,
    covered_by,
    gap_of,
    opens_at,
    rules_of,
    timetable,
    upload_limit,
)
from holdfast.schedules.running.steps import PlannedStep, Surroundings, needs_backup, plan

log = structlog.get_logger("holdfast.schedules")

ROWS_AT_ONCE = 200
TRIGGERED_BY = "schedule"
EVIDENCE = {
    "backup": "last_backup",
    "prune": "last_prune",
    "compact": "last_compact",
    "check": "last_check",
    "restore_check": "last_restore_check",
    "mirror": "last_mirror",
}
LOADED = (
    Repository.name,
    Repository.path,
    Repository.agent_machine_id,
    Repository.execution_target,
    Repository.engine_version,
    Repository.rclone_remote_id,
    Repository.mode,
    Repository.setup_state,
    Repository.archive_name_template,
    *(getattr(Repository, name) for name in EVIDENCE.values()),
)
"""What of a repository the tick needs: it looks at thousands of them."""
_mirrors = table("repository_mirrors", column("repository_id"))
_databases = table("dumped_databases", column("repository_id"))
"""Known by name alone."""


@dataclass(frozen=True, slots=True)
class _Around:
    """What is known of everything that some rows are about."""

    now: datetime
    paused: bool
    covered: Covered
    schedules: Mapping[int, Schedule]
    repositories: Mapping[int, Repository]
    targets: Mapping[int, store.Target]
    agents: Mapping[int, str]
    earlier: Mapping[tuple[int, int], ScheduleRun]
    mirrored: Collection[int]
    dumped: Collection[int]
    """Repositories that have databases to dump."""
    reachable: Collection[int]
    """Repositories whose ssh machine has just answered."""


def release_rows(
    session: Session,
    registry: Registry,
    now: datetime,
    reachable: Collection[int] = (),
    only: Sequence[int] = (),
    most: int = ROWS_AT_ONCE,
) -> Done:
    """Judge rows that are to be looked at, and do what the judgement says. One transaction."""
    statement = select(ScheduleRun).where(ScheduleRun.look_at <= now)
    if only:
        statement = statement.where(ScheduleRun.id.in_(only))
    else:
        tried_first = ScheduleRun.waiting_for == WaitingFor.CONNECTION
        statement = statement.where(or_(ScheduleRun.waiting_for.is_(None), ~tried_first))
    statement = statement.order_by(ScheduleRun.look_at, ScheduleRun.id).limit(most)
    statement = statement.with_for_update(skip_locked=True).execution_options(populate_existing=True)
    rows = list(session.scalars(statement))
    if not rows:
        return Done()
    _act(session, registry, rows, _gather(session, rows, now, reachable))
    return Done(rows=len(rows), more=len(rows) == most)


def _act(session: Session, registry: Registry, rows: Sequence[ScheduleRun], around: _Around) -> None:
    released: list[ScheduleRun] = []
    for row in rows:
        schedule = around.schedules[row.schedule_id]
        if row.outcome == Outcome.RAN and row.waiting_for != WaitingFor.RETRY:
            _stop(session, row)
            continue
        match _verdict_or_refusal(row, schedule, around):
            case Release():
                released.append(row)
            case Wait(until) if row.outcome == Outcome.RAN:
                row.look_at = until  # a retry stays one, whatever else it has to wait for
            case Wait(until, waiting_for):
                row.look_at, row.waiting_for = until, _way_of_waiting(row, waiting_for, around)
                row.reason_operation_id = _earlier_operation(session, row, around)
            case End() as verdict if row.outcome == Outcome.RAN:
                del verdict
                ended.settle(session, schedule, row, around.now)
            case End() as verdict:
                if verdict.reason is Reason.OVERLAP:
                    verdict = End(verdict.outcome, verdict.reason, _earlier_operation(session, row, around))
                ended.end(session, schedule, row, verdict, around.now)
    _enqueue(session, registry, released, around)
    session.flush()


def _way_of_waiting(row: ScheduleRun, waiting_for: WaitingFor, around: _Around) -> WaitingFor:
    """An ssh machine does not announce itself: it has to be tried."""
    repository = around.repositories.get(row.repository_id)
    is_tried = waiting_for is WaitingFor.MACHINE and repository is not None and repository.execution_target == "ssh"
    return WaitingFor.CONNECTION if is_tried else waiting_for


# --- the judgement ----------------------------------------------------------------------------------------------------


def _verdict_or_refusal(row: ScheduleRun, schedule: Schedule, around: _Around) -> Verdict:
    try:
        return _verdict(row, schedule, around)
    except UNREADABLE:
        log.exception("a run of a schedule cannot be judged", schedule_id=schedule.id, row_id=row.id)
        return End(Outcome.SKIPPED, Reason.REFUSED)


def _verdict(row: ScheduleRun, schedule: Schedule, around: _Around) -> Verdict:
    is_manual = row.origin == Origin.MANUAL
    facts = Row(
        due_at=row.due_at,
        start_at=row.start_at,
        waiting_for=WaitingFor(row.waiting_for) if row.waiting_for else None,
        is_manual=is_manual,
        is_retry=row.outcome == Outcome.RAN,
    )
    respected = not is_manual or bool((row.options or {}).get("respect_windows"))
    rules = rules_of(schedule, paused=around.paused)
    return judge(facts, rules, _place(row, schedule, around), opens_at(schedule, respected=respected), around.now)


def _place(row: ScheduleRun, schedule: Schedule, around: _Around) -> Place:
    repository, target = around.repositories.get(row.repository_id), around.targets.get(row.repository_id)
    if repository is None or target is None or not store.matching(schedule, [target]):
        return Place(is_target=False)
    earlier = around.earlier.get((row.schedule_id, row.repository_id))
    return Place(
        is_observed=repository.mode == "observe",
        is_set_up=repository.setup_state in ("ready", agent_target.UNVERIFIED),
        blackout=around.covered(row.due_at, target.labels) or around.covered(around.now, target.labels),
        last_success=repository.last_backup if needs_backup(schedule.steps) else None,
        is_online=_is_online(schedule, repository, around),
        machine_look=check_interval(schedule) if repository.execution_target == "ssh" else MACHINE_LOOK,
        has_earlier_run=earlier is not None and earlier.id != row.id and earlier.waiting_for != WaitingFor.RETRY,
    )


MACHINE_LOOK = timedelta(minutes=15)


def _is_online(schedule: Schedule, repository: Repository, around: _Around) -> bool:
    """Agents report by themselves. Ssh machines of schedules by availability are tried first; others are expected to be there."""
    if repository.execution_target == "agent":
        return around.agents.get(repository.agent_machine_id or 0) == "online"
    if repository.execution_target == "ssh" and schedule.schedule_mode == Mode.AVAILABILITY:
        return repository.id in around.reachable
    return True


def _earlier_operation(session: Session, row: ScheduleRun, around: _Around) -> int | None:
    """The operation of the earlier run that has not ended."""
    earlier = around.earlier.get((row.schedule_id, row.repository_id))
    if earlier is None or earlier.id == row.id:
        return None
    ids = operations_of(earlier)
    active = (operation.id for operation in pages.by_ids(session, ids) if Status(operation.status) in ACTIVE)
    return min(active, default=ids[-1] if ids else None)


def operations_of(row: ScheduleRun) -> list[int]:
    """The newest operation of each step, in the order of the steps."""
    return [step["operation_id"] for step in row.steps or () if step.get("operation_id")]


def _gather(session: Session, rows: Sequence[ScheduleRun], now: datetime, reachable: Collection[int]) -> _Around:
    repository_ids = sorted({row.repository_id for row in rows})
    found = {
        repository.id: repository
        for repository in session.scalars(
            select(Repository).options(load_only(*LOADED)).where(Repository.id.in_(repository_ids))
        )
    }
    schedules = store.by_ids(session, {row.schedule_id for row in rows})
    mirrored = select(_mirrors.c.repository_id).where(_mirrors.c.repository_id.in_(repository_ids))
    return _Around(
        now=now,
        paused=store.is_paused(session),
        covered=covered_by(store.blackouts(session)),
        schedules=schedules,
        repositories=found,
        targets={target.id: target for target in store.all_targets(session, repository_ids)},
        agents=store.agent_statuses(session, {one.agent_machine_id for one in found.values() if one.agent_machine_id}),
        earlier=store.unended(session, list(schedules), repository_ids),
        mirrored=frozenset(session.scalars(mirrored)),
        dumped=_with_databases(session, schedules.values(), repository_ids),
        reachable=reachable,
    )


def _with_databases(session: Session, schedules: Iterable[Schedule], repository_ids: Sequence[int]) -> Collection[int]:
    """Repositories whose databases can be dumped. Nobody is asked unless a schedule has such a step."""
    # A step that cannot be read is its own run's trouble: what is gathered here is for all of them.
    steps = (step for schedule in schedules if isinstance(schedule.steps, list) for step in schedule.steps)
    if not any(isinstance(step, dict) and step.get("kind") == "dump" for step in steps):
        return ()
    found = select(_databases.c.repository_id).where(_databases.c.repository_id.in_(repository_ids)).distinct()
    return frozenset(session.scalars(found))


# --- into the queue ---------------------------------------------------------------------------------------------------


def _enqueue(
    session: Session,
    registry: Registry,
    rows: Iterable[ScheduleRun],
    around: _Around,
    caller: Caller | None = None,
) -> None:
    """Queue the operations of rows that may run, all at once, and note them in the rows."""
    chains: list[list[Link]] = []
    chained: list[tuple[ScheduleRun, list[PlannedStep]]] = []
    for row in rows:
        schedule, repository = around.schedules[row.schedule_id], around.repositories[row.repository_id]
        if row.outcome == Outcome.RAN:
            _repeat(session, registry, row, schedule, repository, around.now)
            continue
        try:
            planned = _planned(session, registry, row, schedule, repository, around)
            chain = _chain(registry, row, schedule, repository, planned, caller)
        except (NotFound, Unprocessable) as refusal:  # such as a script that was deleted meanwhile
            log.warning("a step of a schedule is refused", schedule_id=schedule.id, reason=refusal.key)
            row.error_key = refusal.key
            ended.end(session, schedule, row, End(Outcome.SKIPPED, Reason.REFUSED), around.now)
            continue
        except UNREADABLE:
            log.exception("the steps of a schedule could not be prepared", schedule_id=schedule.id)
            row.error_key = "schedules.bad_steps"
            ended.end(session, schedule, row, End(Outcome.SKIPPED, Reason.REFUSED), around.now)
            continue
        if not chain:
            row.steps = [_noted(step, None) for step in planned]
            ended.end(session, schedule, row, End(Outcome.SKIPPED, Reason.NOTHING_DUE), around.now)
            continue
        chains.append(chain)
        chained.append((row, planned))
    for (row, planned), ids in zip(chained, queue.enqueue_chains(session, chains), strict=True):
        numbers = iter(ids)
        row.steps = [_noted(step, next(numbers) if step.operation else None) for step in planned]
        _mark_released(row, around.schedules[row.schedule_id], around.now)


def _planned(
    session: Session,
    registry: Registry,
    row: ScheduleRun,
    schedule: Schedule,
    repository: Repository,
    around: _Around,
) -> list[PlannedStep]:
    def completed(kind: str, step: Mapping[str, Any]) -> Mapping[str, Any]:
        rules = registry.kinds[kind].step_rules
        assert rules is not None
        return rules.params(session, step)

    asked = (row.options or {}).get("steps")
    wanted = [step for step in schedule.steps if asked is None or step["kind"] in asked]
    surroundings = Surroundings(
        due_at=row.due_at,
        gap=gap_of(schedule),
        evidence={kind: getattr(repository, name) for kind, name in EVIDENCE.items()},
        template=schedule.archive_name_template,
        repository_template=repository.archive_name_template,
        upload_kib=upload_limit(schedule, around.now) if repository.engine_version == 1 else None,
        has_mirror=repository.id in around.mirrored,
        has_databases=repository.id in around.dumped and repository.execution_target == "local",
        bandwidth=timetable(schedule, around.now) if repository.id in around.mirrored else None,
        completed=completed,
    )
    return plan(wanted, surroundings, all_due=asked is not None)


def _chain(
    registry: Registry,
    row: ScheduleRun,
    schedule: Schedule,
    repository: Repository,
    planned: Sequence[PlannedStep],
    caller: Caller | None,
) -> list[Link]:
    subject = repositories.subject(repository)
    chain = []
    for step in planned:
        if step.operation is None:
            continue
        kind = registry.kinds[step.operation]
        params = kind.params.model_validate(step.params).model_dump(mode="json", exclude_none=True)
        asked = Asked(
            Trigger.MANUAL if caller is not None else Trigger.SCHEDULE,
            caller.user_id if caller is not None else None,
            caller.username if caller is not None else TRIGGERED_BY,
            run_id=row.run_id,
            depends_needs=step.needs,
            schedule_id=schedule.id,
            schedule_name=schedule.name,
        )
        chain.append(Link(kind, params, asked, _executed_by(kind, params, subject), step.after))
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
    """Queue again what failed and what was skipped because of it, in the same run."""
    before = {operation.id: operation for operation in pages.by_ids(session, operations_of(row))}
    steps = [step for step in row.steps if step.get("operation_id") in before]
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


def _stop(session: Session, row: ScheduleRun) -> None:
    """The window has closed, or somebody wants it: cancel what has not ended. The newest first, so that nothing is skipped instead.

    A script that always runs after the backup still does, if its turn has not come: it undoes what one before it has done.
    """
    undoing = {step["operation_id"] for step in row.steps if step.get("undoes") and step.get("operation_id")}
    waiting = {found.id for found in pages.by_ids(session, undoing) if found.status == Status.PENDING}
    for number in sorted(set(operations_of(row)) - waiting, reverse=True):
        transitions.request_cancel(session, number)
    row.look_at = None


# --- by hand ----------------------------------------------------------------------------------------------------------


def run_now(
    session: Session,
    registry: Registry,
    schedule: Schedule,
    repository_ids: Sequence[int] | None,
    steps: Sequence[str] | None,
    *,
    respect_windows: bool,
    caller: Caller,
    now: datetime,
) -> list[ScheduleRun]:
    """Run a schedule because somebody asked for it. Raise Conflict while an earlier run has not ended, Unprocessable.

    Rights are the route's to check. A row whose machine is away, or whose window is closed, is returned waiting.
    """
    targets = store.matching(schedule, store.all_targets(session))
    if repository_ids is not None:
        targets = [target for target in targets if target.id in set(repository_ids)]
    if not targets:
        raise Unprocessable(
            "schedules.no_targets",
            "No repository of this schedule was chosen. Nothing was started; choose repositories of the schedule.",
        )
    _make_way(session, schedule, {target.id for target in targets}, now)
    run_id = uuid.uuid4().hex
    rows = [
        ScheduleRun(
            schedule_id=schedule.id,
            repository_id=target.id,
            due_at=now,
            due_count=1,
            origin=Origin.MANUAL,
            revision=schedule.revision,
            start_at=now,
            look_at=now,
            waiting_for=WaitingFor.START,
            outcome=Outcome.WAITING,
            run_id=run_id,
            tries=0,
            steps=[],
            options={"steps": list(steps) if steps is not None else None, "respect_windows": respect_windows},
        )
        for target in targets
    ]
    session.add_all(rows)
    session.flush()
    around = _gather(session, rows, now, reachable={target.id for target in targets})
    released = []
    for row in rows:
        match _verdict(row, schedule, around):
            case Release():
                released.append(row)
            case Wait(until, waiting_for):
                row.look_at, row.waiting_for = until, waiting_for
            case End() as verdict:
                ended.end(session, schedule, row, verdict, now)
    _enqueue(session, registry, released, around, caller)
    session.flush()
    return rows


def _make_way(session: Session, schedule: Schedule, repository_ids: Collection[int], now: datetime) -> None:
    """Give up retries that the new run makes needless. Raise Conflict for a run that has not ended."""
    for row in store.unended_of(session, schedule.id):
        if row.repository_id not in repository_ids:
            continue
        if row.waiting_for == WaitingFor.RETRY:
            ended.settle(session, schedule, row, now)
            continue
        raise Conflict(
            "schedules.already_running",
            "A run of this schedule has not ended yet. Nothing was started; wait for it, or cancel it.",
            run_row_id=row.id,
            repository_id=row.repository_id,
            operation_ids=operations_of(row),
        )


def cancel(session: Session, row_id: int, now: datetime) -> ScheduleRun | None:
    """Cancel a run: one that waits is skipped, operations of one that runs are asked to stop. Raise Conflict if it has ended."""
    statement = select(ScheduleRun).where(ScheduleRun.id == row_id).with_for_update()
    row = session.scalars(statement.execution_options(populate_existing=True)).first()
    if row is None:
        return None
    schedule = store.get_even_deleted(session, row.schedule_id)
    if row.settled_at is not None or schedule is None:
        raise Conflict("schedules.run_ended", "The run has ended already. Nothing was changed.", outcome=row.outcome)
    if row.outcome == Outcome.WAITING:
        ended.end(session, schedule, row, End(Outcome.SKIPPED, Reason.CANCELLED), now)
    elif row.waiting_for == WaitingFor.RETRY:
        ended.settle(session, schedule, row, now)
    else:
        _stop(session, row)
    session.flush()
    return row
