"""All statements on operations. Nothing else in the service writes a status."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Integer,
    Select,
    Text,
    and_,
    bindparam,
    case,
    cast,
    column,
    delete,
    exists,
    func,
    insert,
    literal,
    literal_column,
    null,
    or_,
    select,
    table,
    text,
    tuple_,
    update,
)
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, aliased

from holdfast.kit import clock, cursor
from holdfast.operations import limits as kernel_limits
from holdfast.operations import outbox, streams
from holdfast.operations.end_time import end_of_work
from holdfast.operations.ending_log import log_ending
from holdfast.operations.kinds import Kind, Registry
from holdfast.operations.lanes import Holder, QueuedReason, Verdict, Waiter, full_groups, judge
from holdfast.operations.models import Operation, Runner
from holdfast.operations.status import (
    AGEING_SECONDS_PER_POINT,
    HELD_BY_PAUSE,
    PRIORITY,
    SUCCEEDED,
    TERMINAL,
    TRANSITIONS,
    LockMode,
    Needs,
    Status,
    Trigger,
)
from holdfast.storage.session import lanes_after_commit
from holdfast.storage.types import UtcDateTime

CLAIM_LOCK = 0x486F6C64
CANDIDATES = 1000
"""More than can start at once: what is left is found by the claim that the next change brings about."""
DEPENDENCY_FAILED = "dependency_failed"
REPOSITORIES_AT_ONCE = 200
LOOKED_AT = 4
"""Newest operations of a repository and kind among which one that came to its end is looked for."""
CREATED_SLACK = 1000
"""Ids grow with creation times except among neighbours that were written at the same moment."""


AGENT_CALL = "engine.call"
"""What an agent must be able to do for operations that a runner executes on its repository."""
INLINE_EXECUTOR = "inline"
"""A request that holds a lane itself. It leaves no history, and nobody hears of it: only its lane matters to others."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The repository that an operation works on."""

    repository_id: int
    name: str
    path: str
    machine_id: int | None = None
    """The machine whose agent opens it."""
    executor: str = "runner"
    shared_writers: bool = False
    """Its engine lets operations run side by side that only add to it."""
    one_at_a_time: bool = False
    """It bears no two runs of the engine at once, not even of readers."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Who or what asked for it."""

    trigger: Trigger
    user_id: int | None = None
    user_name: str | None = None
    run_id: str | None = None
    parent_id: int | None = None
    depends_on_id: int | None = None
    depends_needs: Needs = Needs.SUCCEEDED
    retry_of: int | None = None
    schedule_id: int | None = None
    schedule_name: str | None = None


def lane_of(repository_id: int) -> str:
    return f"repository:{repository_id}"


def _mode(kind: Kind, subject: Subject | None) -> LockMode | None:
    if subject is not None and subject.shared_writers:
        if kind.only_adds:
            return LockMode.SHARED
        if kind.beside_no_writer:
            return LockMode.EXCLUSIVE
    return kind.lock


def enqueue(
    session: Session,
    kind: Kind,
    params: dict[str, Any],
    origin: Origin,
    *,
    subject: Subject | None = None,
    executor: str | None = None,
    runner_id: str | None = None,
    lock_key: str | None = None,
    lock_mode: LockMode | None = None,
    archive_name: str | None = None,
    package_name: str | None = None,
    job_kind: str | None = None,
) -> Operation:
    """Put an operation in the queue. It becomes visible, and may start, when the transaction commits."""
    values = _new_row(
        kind,
        params,
        origin,
        subject=subject,
        executor=executor,
        lock_key=lock_key,
        lock_mode=lock_mode,
        job_kind=job_kind,
    )
    operation = Operation(**values, runner_id=runner_id, archive_name=archive_name, package_name=package_name)
    session.add(operation)
    session.flush()
    if operation.executor != INLINE_EXECUTOR:
        note(session, operation.id, operation.repository_id, Status.PENDING)
    if origin.depends_on_id is not None:
        _settle_with_dependency(session, operation, origin.depends_on_id)
    return operation


@dataclass(frozen=True, slots=True)
class Link:
    """One operation of a chain. `after` is the place in the chain of the operation that it depends on."""

    kind: Kind
    params: dict[str, Any]
    origin: Origin
    subject: Subject
    after: int | None = None


def enqueue_chains(session: Session, chains: Sequence[Sequence[Link]]) -> list[list[int]]:
    """Put chains of operations in the queue, many at once; return their ids. Along a chain ids grow.

    An operation outside the chain on which a link depends must have ended as the link needs it.
    """
    ids: list[list[int]] = [[] for _ in chains]
    for place in range(max(map(len, chains), default=0)):
        wave = [(ids[number], chain[place]) for number, chain in enumerate(chains) if len(chain) > place]
        rows = []
        for earlier, link in wave:
            origin = link.origin
            if link.after is not None:
                origin = replace(origin, depends_on_id=earlier[link.after])
            rows.append(_new_row(link.kind, link.params, origin, subject=link.subject))
        statement = insert(Operation.__table__).returning(Operation.__table__.c.id, sort_by_parameter_order=True)  # type: ignore[arg-type]
        added = session.execute(statement, rows).scalars().all()
        for (earlier, _), number in zip(wave, added, strict=True):
            earlier.append(number)
        outbox.tell_many(
            session,
            "operation.updated",
            [
                ({"id": number, "status": str(Status.PENDING)}, link.subject.repository_id, number)
                for (_, link), number in zip(wave, added, strict=True)
            ],
        )
    return ids


def _new_row(
    kind: Kind,
    params: dict[str, Any],
    origin: Origin,
    *,
    subject: Subject | None,
    executor: str | None = None,
    lock_key: str | None = None,
    lock_mode: LockMode | None = None,
    job_kind: str | None = None,
) -> dict[str, Any]:
    executor = executor or (subject.executor if subject else "runner")
    if executor == "agent" and job_kind is None:
        executor, job_kind = _on_agent(kind)
    elif executor == "runner" and subject is not None and subject.machine_id is not None:
        job_kind = AGENT_CALL
    now = clock.now()
    priority = PRIORITY[origin.trigger]
    mode = lock_mode or _mode(kind, subject)
    if mode and subject and subject.one_at_a_time:
        mode = LockMode.EXCLUSIVE
    key = lock_key or kind.lock_key or (lane_of(subject.repository_id) if subject and mode else None)
    return {
        "uuid": uuid.uuid4().hex,
        "kind": kind.name,
        "category": kind.category,
        "status": Status.PENDING,
        "trigger": origin.trigger,
        "priority": priority,
        "queue_rank": now.timestamp() + priority * AGEING_SECONDS_PER_POINT,
        "run_id": origin.run_id or uuid.uuid4().hex,
        "parent_id": origin.parent_id,
        "depends_on_id": origin.depends_on_id,
        "depends_needs": origin.depends_needs,
        "retry_of": origin.retry_of,
        "repository_id": subject.repository_id if subject else None,
        "repository_name": subject.name if subject else None,
        "repository_path": subject.path if subject else None,
        "machine_id": subject.machine_id if subject else None,
        "executor": executor,
        "job_kind": job_kind,
        "lock_key": key,
        "lock_mode": mode if key else None,
        "limit_group": kind.limit_group if executor == "runner" else None,
        "created_at": now,
        "triggered_by_id": origin.user_id,
        "triggered_by": origin.user_name,
        "schedule_id": origin.schedule_id,
        "schedule_name": origin.schedule_name,
        "params": params,
        "attempt": 1,
        "log_base_line": 0,
    }


def _on_agent(kind: Kind) -> tuple[str, str]:
    """Who executes an operation on an agent's repository: the agent, or a runner here that calls the agent."""
    return ("agent", kind.agent.job_kind) if kind.agent is not None else ("runner", AGENT_CALL)


def _settle_with_dependency(session: Session, operation: Operation, dependency: int) -> None:
    """Skip a newcomer that its dependency has let down. The lock makes an end that is being recorded come first, or see it."""
    locked = select(Operation.status, Operation.started_at).where(Operation.id == dependency).with_for_update(read=True)
    found = session.execute(locked).first()
    if found is None or Status(found.status) not in TERMINAL:
        return
    needs, started = Needs(operation.depends_needs), found.started_at is not None
    if not _is_enough(needs, Status(found.status), started=started) and skip(session, operation.id, DEPENDENCY_FAILED):
        session.refresh(operation)


def _is_enough(needs: Needs, ended: Status, *, started: bool) -> bool:
    """Whether an end is what an operation needs of the one that it depends on."""
    if needs is Needs.OVER:
        return True
    if needs is Needs.RAN:
        return started and ended is not Status.SKIPPED
    return ended in SUCCEEDED


def note(session: Session, operation_id: int, repository_id: int | None, status: Status, **more: Any) -> None:
    """Write the outbox row of a change of status."""
    payload = {"id": operation_id, "status": str(status), **more}
    outbox.tell(session, "operation.updated", payload, repository_id=repository_id, operation_id=operation_id)


def move(
    session: Session,
    operation_id: int,
    old: Status,
    new: Status,
    *guards: Any,
    **values: Any,
) -> bool:
    """Change a status if it is still what it was. False when somebody else got there first."""
    if new not in TRANSITIONS[old]:
        raise ValueError(f"an operation never goes from {old} to {new}")
    changed = session.execute(
        update(Operation)
        .where(Operation.id == operation_id, Operation.status == old, *guards)
        .values(status=new, **values)
        .returning(Operation.repository_id, Operation.kind, Operation.repository_name, Operation.executor)
        .execution_options(synchronize_session=False)
    ).all()
    if len(changed) != 1:
        return False
    row = changed[0]
    if row.executor != INLINE_EXECUTOR:
        note(session, operation_id, row.repository_id, new)
    elif new is not Status.RUNNING:
        lanes_after_commit(session)
    log_ending(session, new, values=values, operation_id=operation_id, kind=row.kind, repository=row.repository_name)
    return True


# --- the queue ---------------------------------------------------------------------------------------------------


HELD_UP = frozenset({QueuedReason.PAUSED, QueuedReason.AGENT_OFFLINE, QueuedReason.AGENT_UNSUPPORTED})


def verdicts(
    session: Session,
    now: datetime,
    *,
    only_lanes: Sequence[str] | None = None,
    everyone: bool = False,
    agent_is_here: bool = False,
) -> tuple[list[Waiter], dict[int, Verdict]]:
    """Judge the waiting operations: all of them if `everyone` is asked for, else only those that a runner could start.

    `agent_is_here`: the agent of these lanes is asking, so it is not silent, whatever the store says yet.
    """
    limits, paused = kernel_limits.read(session)
    running = [Holder(*row) for row in session.execute(_RUNNING).all()]
    by_group, total = limits.by_group(), limits.max_running_total
    if everyone:
        statement = _WAITING
        values: dict[str, Any] = {}
    else:
        statement = _STARTABLE
        full = full_groups(running, by_group, total)
        values = {"now": now, "paused": int(paused), "full": sorted(full), "most": CANDIDATES}
    if only_lanes is not None:
        statement = statement.where(Operation.lock_key.in_(only_lanes))
    waiting = [_waiter(row) for row in session.execute(statement, values).all()]
    if agent_is_here:
        waiting = [_as_of_a_present_agent(waiter) for waiter in waiting]
    return waiting, judge(waiting, running, limits=by_group, total=total, paused=paused, now=now)


def cannot_go_on(session: Session, lanes: Sequence[str]) -> frozenset[int]:
    """Of the operations in these lanes, those that nobody works on or will begin with unless something changes first.

    They are held, or wait for an agent that is not there or does not know such work, or for another one that does.
    """
    waiting, judged = verdicts(session, clock.now(), only_lanes=lanes, everyone=True)
    silent = select(Operation.id).join(_agents, _agents.c.id == Operation.machine_id)
    silent = silent.where(
        Operation.lock_key.in_(lanes), Operation.status == Status.RUNNING, Operation.executor == "agent"
    )
    stuck = set(session.scalars(silent.where(_agents.c.status != "online")))
    for waiter in sorted(waiting, key=lambda waiter: waiter.id):  # what others depend on has the smaller id
        verdict = judged[waiter.id]
        if verdict.reason in HELD_UP or (verdict.reason is QueuedReason.DEPENDENCY and verdict.behind_id in stuck):
            stuck.add(waiter.id)
    return frozenset(stuck)


def _waiter(row: Any) -> Waiter:
    waiter = Waiter(*row)
    return replace(waiter, agent_reason=QueuedReason(waiter.agent_reason)) if waiter.agent_reason else waiter


def _as_of_a_present_agent(waiter: Waiter) -> Waiter:
    return replace(waiter, agent_reason=None) if waiter.agent_reason is QueuedReason.AGENT_OFFLINE else waiter


def claim(session: Session, runner_id: str, spool_root: str, *, capacity: int) -> list[int]:
    """Take up to `capacity` operations that may start now, and return their ids."""
    serialise_claims(session)
    waiting, judged = verdicts(session, clock.now())
    claimed: list[int] = []
    for waiter in waiting:
        if len(claimed) == capacity:
            break
        may_start = judged[waiter.id].may_start and waiter.executor == "runner"
        if may_start and start(session, waiter, runner_id, spool_root):
            claimed.append(waiter.id)
    return claimed


def claim_one(session: Session, operation_id: int, runner_id: str, spool_root: str | None) -> Verdict:
    """Start one given operation if the rules let it start now; return the verdict.

    Without a spool root its spool, if any, is on another machine.
    """
    serialise_claims(session)
    found = session.execute(select(Operation.lock_key, Operation.executor).where(Operation.id == operation_id)).first()
    lock_key, executor = found or (None, None)
    only = [lock_key] if lock_key is not None else None
    waiting, judged = verdicts(session, clock.now(), only_lanes=only, everyone=True, agent_is_here=executor == "agent")
    for waiter in waiting:
        if waiter.id == operation_id:
            verdict = judged[waiter.id]
            started = verdict.may_start and start(session, waiter, runner_id, spool_root)
            return verdict if started or not verdict.may_start else Verdict(QueuedReason.REPOSITORY_BUSY)
    return Verdict(QueuedReason.REPOSITORY_BUSY)  # not among those that may be judged: cancelled, or far behind


def serialise_claims(session: Session) -> None:
    """One claim at a time, so that lanes and limits are judged on what is true. SQLite's write lock does it already."""
    if session.get_bind().dialect.name == "postgresql":
        session.execute(_CLAIM_LOCK)


def start(session: Session, waiter: Waiter, runner_id: str, spool_root: str | None) -> bool:
    """Set a pending operation running. The store itself refuses a second holder of an exclusive lane."""
    other = aliased(Operation)
    conflicting = exists().where(
        other.lock_key == waiter.lock_key,
        other.status == Status.RUNNING,
        or_(other.lock_mode == LockMode.EXCLUSIVE, text(":mode = 'exclusive'").bindparams(mode=waiter.lock_mode or "")),
    )
    try:
        with session.begin_nested():
            return move(
                session,
                waiter.id,
                Status.PENDING,
                Status.RUNNING,
                ~conflicting,
                runner_id=runner_id,
                started_at=func.coalesce(Operation.started_at, clock.now()),
                spool=f"{spool_root}/{waiter.id}" if spool_root is not None else None,
                log_file=func.coalesce(Operation.log_file, f"{clock.now():%Y-%m}/{waiter.id}.log"),
                available_at=None,
            )
    except IntegrityError:
        return False


def requeue_for_next_attempt(
    session: Session,
    operation: Operation,
    *,
    log_lines: int,
    delay_seconds: float,
    result: Mapping[str, Any] | None = None,
) -> bool:
    """Put a running operation back in the queue for its next attempt, with what this one has done, if anything.

    False when it is no longer this runner's, or somebody has asked for it to stop: then there is no next attempt.
    """
    later = clock.now() + timedelta(seconds=delay_seconds) if delay_seconds else None
    kept = {"result": dict(result)} if result is not None else {}
    return _requeue(
        session, operation, attempt=operation.attempt + 1, log_base_line=log_lines, available_at=later, **kept
    )


def requeue_as_never_started(session: Session, operation: Operation) -> bool:
    """Put a running operation back as if it had never been claimed. False when somebody has asked for it to stop."""
    values = {"started_at": None} if operation.attempt == 1 else {}
    return _requeue(session, operation, **values)


def _requeue(session: Session, operation: Operation, **values: Any) -> bool:
    return move(
        session,
        operation.id,
        Status.RUNNING,
        Status.PENDING,
        Operation.runner_id == operation.runner_id,
        Operation.attempt == operation.attempt,
        Operation.cancel_requested_at.is_(None),
        runner_id=None,
        spool=None,
        progress=None,
        **values,
    )


def finish(
    session: Session,
    registry: Registry,
    operation: Operation,
    status: Status,
    *,
    error_key: str | None = None,
    error_message: str | None = None,
    skip_reason: str | None = None,
    result: dict[str, Any] | None = None,
    warnings: list[dict[str, Any]] | None = None,
    archive_name: str | None = None,
    progress: dict[str, Any] | None = None,
    had_effects: bool = False,
) -> bool:
    """End a running operation. False when it is no longer this runner's to end."""
    ended = move(
        session,
        operation.id,
        Status.RUNNING,
        status,
        Operation.runner_id == operation.runner_id,
        Operation.attempt == operation.attempt,
        completed_at=end_of_work(session),
        error_key=error_key,
        error_message=error_message,
        skip_reason=skip_reason,
        result=result if result is not None else operation.result,
        warnings=warnings or None,
        archive_name=archive_name or operation.archive_name,
        progress=progress,
    )
    if not ended:
        return False
    settle_dependants(session, operation.id, status)
    if status in SUCCEEDED or had_effects:
        tell_listeners(session, registry, operation.id)
    return True


def name_archive(session: Session, operation: Operation, name: str, result: dict[str, Any]) -> None:
    """Complete the record of a backup that has ended: its archive got a name that nobody knew at its end."""
    session.execute(
        update(Operation)
        .where(Operation.id == operation.id, Operation.archive_name.is_(None))
        .values(archive_name=name, result=result)
        .execution_options(synchronize_session=False)
    )
    note(session, operation.id, operation.repository_id, Status(operation.status))


def tell_listeners(session: Session, registry: Registry, operation_id: int) -> None:
    operation = session.get(Operation, operation_id, populate_existing=True)
    kind = registry.kinds.get(operation.kind) if operation else None
    if operation is None or kind is None:
        return
    for effect in sorted(kind.effects):
        for listener in registry.listeners.get(effect, ()):
            listener(session, operation)


def settle_dependants(session: Session, operation_id: int, status: Status) -> None:
    """Skip what needed another end of an operation than this one, and what needed that."""
    if status in SUCCEEDED:
        return
    for dependant in session.execute(_DEPENDANTS, {"dependency": operation_id}).all():
        started = dependant.dependency_started_at is not None
        if _is_enough(Needs(dependant.depends_needs), status, started=started):
            continue
        if skip(session, dependant.id, DEPENDENCY_FAILED):
            settle_dependants(session, dependant.id, Status.SKIPPED)


def skip(session: Session, operation_id: int, reason: str) -> bool:
    return move(session, operation_id, Status.PENDING, Status.SKIPPED, skip_reason=reason, completed_at=clock.now())


def fail_pending(session: Session, operation_id: int, error_key: str, error_message: str) -> bool:
    failed = move(
        session,
        operation_id,
        Status.PENDING,
        Status.FAILED,
        completed_at=clock.now(),
        error_key=error_key,
        error_message=error_message,
    )
    if failed:
        settle_dependants(session, operation_id, Status.FAILED)
    return failed


def request_cancel(session: Session, operation_id: int) -> Status | None:
    """Cancel a pending operation at once, ask a running one to stop; return the status after it, None if unknown."""
    while True:
        if _cancel_pending(session, operation_id):
            return Status.CANCELLED
        if _ask_to_stop(session, operation_id):
            return Status.RUNNING
        status = session.scalar(select(Operation.status).where(Operation.id == operation_id))
        if status is None or Status(status) in TERMINAL:
            return Status(status) if status else None
        # On PostgreSQL it was claimed or queued again between two of these statements: it still has to be told.


def _cancel_pending(session: Session, operation_id: int) -> bool:
    now = clock.now()
    cancelled = move(session, operation_id, Status.PENDING, Status.CANCELLED, cancel_requested_at=now, completed_at=now)
    if cancelled:
        settle_dependants(session, operation_id, Status.CANCELLED)
    return cancelled


def _ask_to_stop(session: Session, operation_id: int) -> bool:
    asked = session.execute(
        update(Operation)
        .where(Operation.id == operation_id, Operation.status == Status.RUNNING)
        .values(cancel_requested_at=func.coalesce(Operation.cancel_requested_at, clock.now()))
        .returning(Operation.repository_id)
        .execution_options(synchronize_session=False)
    ).all()
    if asked:
        note(session, operation_id, asked[0].repository_id, Status.RUNNING, cancel_requested=True)
    return bool(asked)


def cancel_pending_of_repository(session: Session, repository_id: int, *, categories: Iterable[str] = ()) -> int:
    """Cancel all that waits for a repository (of some categories, if given).

    The newest first: what waits for another of them is cancelled like it, not skipped because of it.
    """
    statement = (
        select(Operation.id)
        .where(Operation.repository_id == repository_id, Operation.status == Status.PENDING)
        .order_by(Operation.id.desc())
    )
    if wanted := tuple(categories):
        statement = statement.where(Operation.category.in_(wanted))
    return sum(request_cancel(session, pending) is Status.CANCELLED for pending in session.scalars(statement).all())


def remove_finished_inline(session: Session, operation_id: int) -> None:
    """Short engine calls of requests leave no history: only their lane mattered."""
    session.execute(delete(Operation).where(Operation.id == operation_id, Operation.executor == INLINE_EXECUTOR))
    lanes_after_commit(session)


def delete_finished(session: Session, operation_id: int) -> bool:
    """Remove a finished operation from the record. False while it is pending or running, or unknown."""
    gone = session.execute(
        delete(Operation)
        .where(Operation.id == operation_id, Operation.status.not_in((Status.PENDING, Status.RUNNING)))
        .returning(Operation.id)
    ).all()
    if gone:
        session.execute(update(Operation).where(Operation.parent_id == operation_id).values(parent_id=None))
    return bool(gone)


# --- runners -----------------------------------------------------------------------------------------------------


def runners(session: Session) -> list[Runner]:
    return list(session.scalars(select(Runner).order_by(Runner.started_at)))


def heartbeat(session: Session, runner_id: str, now: datetime) -> None:
    session.execute(update(Runner).where(Runner.id == runner_id).values(heartbeat_at=now))


def forget_idle_runner(session: Session, runner_id: str) -> bool:
    """Remove a runner that no running operation names any more. False while one does."""
    busy = exists().where(Operation.runner_id == runner_id, Operation.status == Status.RUNNING)
    gone = session.execute(delete(Runner).where(Runner.id == runner_id, ~busy).returning(Runner.id)).all()
    return bool(gone)


def anything_waiting(session: Session) -> bool:
    return session.scalar(_ANYTHING_WAITING) is not None


def running_groups(session: Session) -> list[str]:
    """The limit group of each running operation that counts towards a limit."""
    statement = select(Operation.limit_group).where(
        Operation.status == Status.RUNNING, Operation.limit_group.is_not(None)
    )
    return [group for group in session.scalars(statement) if group is not None]


def running_by_runner(session: Session) -> dict[str, int]:
    statement = (
        select(Operation.runner_id, func.count())
        .where(Operation.status == Status.RUNNING, Operation.runner_id.is_not(None))
        .group_by(Operation.runner_id)
    )
    return {str(row[0]): row[1] for row in session.execute(statement)}


def running_in_processes(session: Session) -> list[Operation]:
    """All that runs in processes of the service, here or elsewhere."""
    statement = select(Operation).where(
        Operation.status == Status.RUNNING,
        Operation.executor.in_(("runner", INLINE_EXECUTOR)),
        Operation.runner_id.is_not(None),
    )
    return list(session.scalars(statement))


def waiting_requests(session: Session) -> list[Operation]:
    """The requests that wait for a lane, each in the name of the process that answers it."""
    statement = select(Operation).where(
        Operation.status == Status.PENDING, Operation.executor == INLINE_EXECUTOR, Operation.runner_id.is_not(None)
    )
    return list(session.scalars(statement))


def active_among(session: Session, operations: Iterable[int]) -> set[int]:
    """Those of the given operations that wait or run."""
    statement = select(Operation.id).where(Operation.status.in_((Status.PENDING, Status.RUNNING)))
    return set(session.scalars(statement)) & set(operations)


def take_over(session: Session, operation: Operation, runner_id: str) -> bool:
    """Make an operation of a dead runner this runner's own."""
    taken = session.execute(
        update(Operation)
        .where(
            Operation.id == operation.id,
            Operation.status == Status.RUNNING,
            Operation.runner_id == operation.runner_id,
            Operation.attempt == operation.attempt,
        )
        .values(runner_id=runner_id)
        .returning(Operation.id)
        .execution_options(synchronize_session=False)
    ).all()
    return bool(taken)


def cancel_requested_of(session: Session, runner_id: str) -> list[int]:
    return list(session.scalars(_CANCEL_REQUESTED, {"runner": runner_id}))


def write_progress(session: Session, rows: list[dict[str, Any]]) -> None:
    """Store progress values, each row `{b_id, b_attempt, b_progress}`, in one statement."""
    session.connection().execute(_PROGRESS, rows)


# --- reading -----------------------------------------------------------------------------------------------------


def get(session: Session, operation_id: int) -> Operation | None:
    return session.get(Operation, operation_id) if 0 < operation_id < 2**63 else None


def repository_exists(session: Session, repository_id: int) -> bool:
    """True while the repository of past operations is still registered. The kernel knows its table by name alone."""
    return session.execute(_REPOSITORY_EXISTS, {"repository": repository_id}).first() is not None


@dataclass(frozen=True, slots=True)
class Filter:
    """What a list of operations is narrowed to. None means: do not narrow."""

    repositories: frozenset[int] | None = None
    """The repositories that the reader may see."""
    of_repositories_only: bool = False
    """Leave out operations that belong to no repository: they are the administrators'."""
    repository_id: int | None = None
    categories: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()
    triggers: tuple[str, ...] = ()
    run_id: str | None = None
    since: datetime | None = None
    parents_only: bool = False


def page(session: Session, narrowed: Filter, limit: int, after: str | None) -> tuple[list[Operation], str | None]:
    """The newest operations that fit, and the cursor of the next page."""
    below = int(cursor.decode(after, int)[0]) if after else streams.BEYOND_ALL_IDS
    if narrowed.run_id is not None:
        rows = _of_run_newest_first(session, narrowed, below, limit + 1)
    else:
        rows = _newest(session, narrowed, below, limit + 1)
    following = cursor.encode(rows[limit - 1].id) if len(rows) > limit else None
    return rows[:limit], following


def _newest(session: Session, narrowed: Filter, below: int, limit: int) -> list[Operation]:
    axes = _axes(session, narrowed)
    bounds = streams.Bounds(
        below=below,
        floor=_floor(session, narrowed.since),
        since=narrowed.since,
        of_repositories_only=narrowed.of_repositories_only and "repository_id" not in axes,
        parents_only=narrowed.parents_only,
    )
    return _by_ids(session, streams.newest_ids(session, axes, bounds, limit))


def _axes(session: Session, narrowed: Filter) -> streams.Axes:
    """The columns that the filter narrows, each with the values that it allows and the record may hold."""
    axes: streams.Axes = {}
    if narrowed.repository_id is not None:
        seen = narrowed.repositories is None or narrowed.repository_id in narrowed.repositories
        axes["repository_id"] = (narrowed.repository_id,) if seen else ()
    elif narrowed.repositories is not None:
        axes["repository_id"] = tuple(sorted(narrowed.repositories))
    if narrowed.kinds or narrowed.categories:
        axes["kind"] = tuple(
            kind
            for kind, category in streams.known_kinds(session).items()
            if (not narrowed.kinds or kind in narrowed.kinds)
            and (not narrowed.categories or category in narrowed.categories)
        )
    if narrowed.statuses or narrowed.triggers:
        axes["status"] = _among(narrowed.statuses, Status)
        axes["trigger"] = _among(narrowed.triggers, Trigger)
    return axes


def _among(wanted: Sequence[str], words: Iterable[Status] | Iterable[Trigger]) -> tuple[str, ...]:
    return tuple(str(word) for word in words if not wanted or word in wanted)


def _floor(session: Session, since: datetime | None) -> int:
    """The lowest id that can be of this time or later."""
    if since is None:
        return 0
    first = session.scalar(_FIRST_SINCE, {"since": since})
    return first - CREATED_SLACK if first is not None else streams.BEYOND_ALL_IDS


def _of_run_newest_first(session: Session, narrowed: Filter, below: int, limit: int) -> list[Operation]:
    """A run has few members: they are looked at one by one."""
    statement = select(Operation).where(Operation.run_id == narrowed.run_id, Operation.id < below)
    for filtered, values in (
        (Operation.category, narrowed.categories),
        (Operation.kind, narrowed.kinds),
        (Operation.status, narrowed.statuses),
        (Operation.trigger, narrowed.triggers),
    ):
        if values:
            statement = statement.where(filtered.in_(values))
    if narrowed.repositories is not None:
        statement = statement.where(Operation.repository_id.in_(narrowed.repositories))
    if narrowed.repository_id is not None:
        statement = statement.where(Operation.repository_id == narrowed.repository_id)
    if narrowed.of_repositories_only:
        statement = statement.where(Operation.repository_id.is_not(None))
    if narrowed.parents_only:
        statement = statement.where(Operation.parent_id.is_(None))
    if narrowed.since is not None:
        statement = statement.where(Operation.created_at >= narrowed.since)
    return list(session.scalars(statement.order_by(Operation.id.desc()).limit(limit)))


def children(session: Session, parents: Sequence[int]) -> list[Operation]:
    if not parents:
        return []
    return list(session.scalars(select(Operation).where(Operation.parent_id.in_(parents)).order_by(Operation.id)))


def of_run(session: Session, run_id: str) -> list[Operation]:
    return list(session.scalars(select(Operation).where(Operation.run_id == run_id).order_by(Operation.id).limit(500)))


def active(session: Session, visible: frozenset[int] | None, *, of_repositories_only: bool) -> list[Operation]:
    """All that runs or waits, in queue order, running first."""
    statement = (
        select(Operation)
        .where(Operation.status.in_((Status.PENDING, Status.RUNNING)))
        .order_by(case((Operation.status == Status.RUNNING, 0), else_=1), Operation.queue_rank, Operation.id)
    )
    if visible is not None:
        statement = statement.where(Operation.repository_id.in_(visible))
    elif of_repositories_only:
        statement = statement.where(Operation.repository_id.is_not(None))
    return list(session.scalars(statement))


_THESE = Operation.repository_id.in_(bindparam("repositories", expanding=True))
_RUNNING_OF = (
    select(Operation)
    .where(Operation.status == Status.RUNNING, _THESE)
    .order_by(case((Operation.lock_mode == LockMode.EXCLUSIVE, 1), else_=0), Operation.id.desc())
)
_LATEST_OF = select(Operation).where(
    Operation.id.in_(
        select(func.max(Operation.id))
        .where(_THESE, Operation.kind.in_(bindparam("kinds", expanding=True)))
        .group_by(Operation.repository_id)
    )
)


def running_of_repositories(session: Session, repositories: Iterable[int]) -> dict[int, Operation]:
    """The first running operation of each repository, exclusive ones before shared ones."""
    found = session.scalars(_RUNNING_OF, {"repositories": list(repositories)})
    return {operation.repository_id: operation for operation in found if operation.repository_id}


def latest_of_repositories(session: Session, repositories: Iterable[int], kinds: Sequence[str]) -> dict[int, Operation]:
    """The newest operation of these kinds of each repository that has one."""
    found = session.scalars(_LATEST_OF, {"repositories": list(repositories), "kinds": list(kinds)})
    return {operation.repository_id: operation for operation in found if operation.repository_id}


@dataclass(frozen=True, slots=True)
class Ended:
    """How the newest operation of a kind that came to an end did so."""

    id: int
    status: Status
    completed_at: datetime | None


def newest_ended(session: Session, repositories: Sequence[int], kinds: Sequence[str]) -> dict[tuple[int, str], Ended]:
    """The newest operation of each repository and kind that succeeded or failed; cancelled ones prove nothing."""
    found: dict[tuple[int, str], Ended] = {}
    for first in range(0, len(repositories), REPOSITORIES_AT_ONCE):
        some = tuple(repositories[first : first + REPOSITORIES_AT_ONCE])
        ids = streams.newest_of_each(session, {"repository_id": some, "kind": tuple(kinds)}, LOOKED_AT)
        columns = select(
            Operation.id, Operation.repository_id, Operation.kind, Operation.status, Operation.completed_at
        )
        rows = session.execute(columns.where(Operation.id.in_(ids)).order_by(Operation.id)) if ids else ()
        for row in rows:
            if Status(row.status) in SUCCEEDED or row.status == Status.FAILED:
                found[row.repository_id, row.kind] = Ended(row.id, Status(row.status), row.completed_at)
    return found


def by_ids(session: Session, ids: Iterable[int]) -> list[Operation]:
    """Operations, newest first."""
    return sorted(_by_ids(session, list(ids)), key=lambda operation: -operation.id)


def latest_of_kind(session: Session, repository_id: int, kinds: Sequence[str], limit: int) -> list[Operation]:
    axes: streams.Axes = {"repository_id": (repository_id,), "kind": tuple(kinds)}
    return _by_ids(session, streams.newest_ids(session, axes, streams.Bounds(), limit))


def _by_ids(session: Session, ids: list[int]) -> list[Operation]:
    return list(session.scalars(_BY_IDS, {"ids": ids})) if ids else []


# --- statements that run often -------------------------------------------------------------------------------------

_CLAIM_LOCK = select(func.pg_advisory_xact_lock(CLAIM_LOCK))
_RUNNING = select(Operation.id, Operation.lock_key, Operation.lock_mode, Operation.limit_group).where(
    Operation.status == Status.RUNNING
)
_dependency = aliased(Operation)


def _can(capabilities: ColumnElement[Any], waiter: Any) -> ColumnElement[bool]:
    """Whether the capabilities of an agent, a list in JSON, name the kind of job that the waiter is."""
    return cast(capabilities, Text).like(literal('%"') + waiter.job_kind + literal('"%'))


_agents = table("agent_machines", column("id"), column("status"), column("capabilities"))
"""The kernel knows the table of agents by name alone."""
_AGENT_REASON = case(
    (Operation.job_kind.is_(None), null()),
    (func.coalesce(_agents.c.status, "") != "online", str(QueuedReason.AGENT_OFFLINE)),
    (~_can(_agents.c.capabilities, Operation), str(QueuedReason.AGENT_UNSUPPORTED)),
    else_=null(),
)
_WAITING = (
    select(
        Operation.id,
        Operation.trigger,
        Operation.lock_key,
        Operation.lock_mode,
        Operation.limit_group,
        case((_dependency.status.in_(("pending", "running")), Operation.depends_on_id), else_=None),
        Operation.available_at,
        Operation.executor,
        _AGENT_REASON,
    )
    .outerjoin(_dependency, _dependency.id == Operation.depends_on_id)
    .outerjoin(_agents, and_(Operation.job_kind.is_not(None), _agents.c.id == Operation.machine_id))
    .where(Operation.status == Status.PENDING)
    .order_by(Operation.queue_rank, Operation.id)
)


def _has_no_reason_of_its_own(waiter: Any) -> ColumnElement[bool]:
    """The rules of `lanes` for whoever does not hold up those behind it, said in SQL."""
    awaited = aliased(Operation)
    its_agent = _agents.alias()
    return and_(
        or_(bindparam("paused", type_=Integer) == 0, waiter.trigger.not_in([str(word) for word in HELD_BY_PAUSE])),
        or_(waiter.available_at.is_(None), waiter.available_at <= bindparam("now", type_=UtcDateTime)),
        or_(
            waiter.depends_on_id.is_(None),
            ~exists().where(awaited.id == waiter.depends_on_id, awaited.status.in_(("pending", "running"))),
        ),
        or_(
            waiter.job_kind.is_(None),
            exists().where(
                its_agent.c.id == waiter.machine_id,
                its_agent.c.status == "online",
                _can(its_agent.c.capabilities, waiter),
            ),
        ),
    )


_holder = aliased(Operation)
_earlier = aliased(Operation)
_STARTABLE = (
    # Each of these may start as far as lanes go. The others are left out before the queue is cut to a length that can be
    # judged often: however many of them stand in front, they must not hide one behind them.
    _WAITING.where(
        Operation.executor == "runner",
        or_(Operation.limit_group.is_(None), Operation.limit_group.not_in(bindparam("full", expanding=True))),
        _has_no_reason_of_its_own(Operation),
        ~exists().where(
            _holder.lock_key == Operation.lock_key,
            _holder.status == Status.RUNNING,
            or_(_holder.lock_mode == LockMode.EXCLUSIVE, Operation.lock_mode == LockMode.EXCLUSIVE),
        ),
        ~exists().where(
            _earlier.lock_key == Operation.lock_key,
            _earlier.status == Status.PENDING,
            tuple_(_earlier.queue_rank, _earlier.id) < tuple_(Operation.queue_rank, Operation.id),
            or_(_earlier.lock_mode == LockMode.EXCLUSIVE, Operation.lock_mode == LockMode.EXCLUSIVE),
            _has_no_reason_of_its_own(_earlier),
        ),
    ).limit(bindparam("most", type_=Integer))
)
_REPOSITORY_EXISTS: Select[Any] = (
    select(literal_column("1"))
    .select_from(table("repositories", column("id")))
    .where(column("id") == bindparam("repository"))
)
_ANYTHING_WAITING = (
    select(Operation.id).where(Operation.status == Status.PENDING, Operation.executor == "runner").limit(1)
)
_DEPENDANTS = (
    select(Operation.id, Operation.depends_needs, _dependency.started_at.label("dependency_started_at"))
    .outerjoin(_dependency, _dependency.id == Operation.depends_on_id)
    .where(Operation.depends_on_id == bindparam("dependency"), Operation.status == Status.PENDING)
    .order_by(Operation.id)
)
_CANCEL_REQUESTED = select(Operation.id).where(
    Operation.status == Status.RUNNING,
    Operation.runner_id == bindparam("runner"),
    Operation.cancel_requested_at.is_not(None),
)
_BY_IDS = select(Operation).where(Operation.id.in_(bindparam("ids", expanding=True))).order_by(Operation.id.desc())
_FIRST_SINCE = (
    select(Operation.id)
    .where(Operation.created_at >= bindparam("since"))
    .order_by(Operation.created_at, Operation.id)
    .limit(1)
)
_PROGRESS = (
    update(Operation.__table__)  # type: ignore[arg-type]
    .where(
        Operation.__table__.c.id == bindparam("b_id"),
        Operation.__table__.c.attempt == bindparam("b_attempt"),
        Operation.__table__.c.status == "running",
    )
    .values(progress=bindparam("b_progress"))
)
