"""The queue: adds operations, and claims those that may start."""

import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import exists, func, literal, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, aliased

from backup_engine.frozen import frozen
from holdfast.errors import TooManyRequests
from holdfast.kit import clock
from holdfast.kit.request_priority import give_way
from holdfast.operations import outbox
from holdfast.operations.kinds import Kind
from holdfast.operations.lanes import QueuedReason, Verdict, Waiter
from holdfast.operations.locks import Sharing, lock_mode
from holdfast.operations.models import Operation, has_status
from holdfast.operations.status import AGEING_SECONDS_PER_POINT, PRIORITY, TERMINAL, LockMode, Needs, Status, Trigger
from holdfast.operations.transitions import DEPENDENCY_FAILED, INLINE_EXECUTOR, is_enough, move, publish_status, skip
from holdfast.operations.waiting_reasons import excludes, verdicts
from holdfast.storage.bulk import insert_many, next_ids

CLAIM_LOCK = 0x486F6C64


MOST_WAITING = 1000
"""Limit on waiting operations per repository for requests by people: every claim and list examines all of them."""
AGENT_CALL = "engine.call"
"""The capability that an agent needs when a runner executes an operation on the agent's repository."""


@frozen
class Subject:
    """The repository that an operation works on."""

    repository_id: int
    name: str
    path: str
    machine_id: int | None = None
    """The machine whose agent opens it."""
    executor: str = "runner"
    sharing: Sharing = Sharing.READERS
    job_kind: str | None = None
    """The capability that its agent needs, if it is not the job of the operation's kind."""


@frozen
class Origin:
    """The user or part of the service that requested the operation."""

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


def require_room(session: Session, repository_id: int) -> None:
    """Raise TooManyRequests if too much work for one repository is already waiting."""
    waiting = select(func.count()).where(Operation.repository_id == repository_id, Operation.status == Status.PENDING)
    if (session.scalar(waiting) or 0) >= MOST_WAITING:
        raise TooManyRequests(
            "operations.too_many_waiting",
            f"This repository has {MOST_WAITING} operations waiting. Cancel some, or try again once some have ended.",
            retry_after=60,
        )


def enqueue(
    session: Session,
    kind: Kind,
    params: dict[str, Any],
    origin: Origin,
    *,
    subject: Subject | None = None,
    archive_name: str | None = None,
    package_name: str | None = None,
) -> Operation:
    """Add an operation to the queue. When the transaction commits, it becomes visible and may start."""
    values = _new_row(kind, params, origin, subject)
    operation = Operation(**values, archive_name=archive_name, package_name=package_name)
    session.add(operation)
    session.flush()
    publish_status(session, operation.id, operation.repository_id, Status.PENDING)
    if origin.depends_on_id is not None:
        _settle_with_dependency(session, operation, origin.depends_on_id)
    return operation


def enqueue_inline(
    session: Session, kind: Kind, runner_id: str, lane: str, subject: Subject | None = None, *, is_last: bool = False
) -> Operation:
    """Add a request that waits for a lane. `runner_id` is the process that answers it; no other process may take it.

    With `is_last`, the request queues behind all exclusive work that waits for the lane, even if that has a lower
    priority.
    """
    values = _new_row(replace(kind, lock_key=lane), {}, Origin(Trigger.API), subject)
    values.update(executor=INLINE_EXECUTOR, job_kind=None, limit_group=None, runner_id=runner_id)
    if is_last:
        ahead = select(func.max(Operation.queue_rank)).where(Operation.id.in_(waiting_exclusively(session, lane)))
        values["queue_rank"] = max(values["queue_rank"], session.scalar(ahead) or 0.0)
    operation = Operation(**values)
    session.add(operation)
    session.flush()
    return operation


@frozen
class Link:
    """One operation of a chain. `after` is the position in the chain of the operation on which it depends."""

    kind: Kind
    params: dict[str, Any]
    origin: Origin
    subject: Subject | None
    after: int | None = None


def enqueue_chains(session: Session, chains: Sequence[Sequence[Link]]) -> list[list[int]]:
    """Add many chains of operations to the queue; return their ids, which increase along each chain.

    If a link depends on an operation outside its chain that has already ended, that operation must have ended as
    required.
    """
    free = iter(next_ids(session, Operation, sum(map(len, chains))))
    ids = [[next(free) for _ in chain] for chain in chains]
    rows, news, now = [], [], clock.now()
    for numbers, chain in zip(ids, chains, strict=True):
        give_way()
        for number, link in zip(numbers, chain, strict=True):
            origin = link.origin
            if link.after is not None:
                origin = replace(origin, depends_on_id=numbers[link.after])
            rows.append({"id": number, **_new_row(link.kind, link.params, origin, link.subject, now)})
            repository_id = link.subject.repository_id if link.subject else None
            news.append(({"id": number, "status": str(Status.PENDING)}, repository_id, number))
    insert_many(session, Operation, rows)
    outbox.publish_many(session, "operation.updated", news)
    return ids


def _new_row(
    kind: Kind, params: dict[str, Any], origin: Origin, subject: Subject | None, now: datetime | None = None
) -> dict[str, Any]:
    executor, job_kind = _executed_by(kind, subject)
    now = now or clock.now()
    return {
        "uuid": uuid.uuid4().hex,
        "kind": kind.name,
        "category": kind.category,
        "status": Status.PENDING,
        "created_at": now,
        "queue_rank": now.timestamp() + PRIORITY[origin.trigger] * AGEING_SECONDS_PER_POINT,
        "executor": executor,
        "job_kind": job_kind,
        "limit_group": kind.limit_group if executor == "runner" else None,
        "params": params,
        "attempt": 1,
        "log_base_line": 0,
        **_lane(kind, subject, executor),
        **_of_origin(origin),
        **_of_subject(subject),
    }


def _executed_by(kind: Kind, subject: Subject | None) -> tuple[str, str | None]:
    """Return the executor of an operation, and the capability that the repository's agent needs for it."""
    if subject is None:
        return "runner", None
    if subject.executor == "agent":
        if subject.job_kind is not None:
            return "agent", subject.job_kind
        # A runner here executes kinds that agents do not know, and calls the agent.
        return ("agent", kind.agent.job_kind) if kind.agent is not None else ("runner", AGENT_CALL)
    return subject.executor, AGENT_CALL if subject.machine_id is not None else None


def _lane(kind: Kind, subject: Subject | None, executor: str) -> dict[str, Any]:
    """Return the lane that an operation must hold to run, and how it holds it."""
    mode = lock_mode(kind.access, subject.sharing if subject is not None else Sharing.READERS)
    key = kind.lock_key or (lane_of(subject.repository_id) if subject is not None and mode else None)
    if key is None and executor == "agent" and subject is not None:
        # Agents are offered work by lane; this lane spans their whole machine.
        return {"lock_key": f"agent:{subject.machine_id}", "lock_mode": LockMode.SHARED}
    return {"lock_key": key, "lock_mode": mode if key else None}


def _of_origin(origin: Origin) -> dict[str, Any]:
    return {
        "trigger": origin.trigger,
        "priority": PRIORITY[origin.trigger],
        "run_id": origin.run_id or uuid.uuid4().hex,
        "parent_id": origin.parent_id,
        "depends_on_id": origin.depends_on_id,
        "depends_needs": origin.depends_needs,
        "retry_of": origin.retry_of,
        "triggered_by_id": origin.user_id,
        "triggered_by": origin.user_name,
        "schedule_id": origin.schedule_id,
        "schedule_name": origin.schedule_name,
    }


def _of_subject(subject: Subject | None) -> dict[str, Any]:
    return {
        "repository_id": subject.repository_id if subject else None,
        "repository_name": subject.name if subject else None,
        "repository_path": subject.path if subject else None,
        "machine_id": subject.machine_id if subject else None,
    }


def _settle_with_dependency(session: Session, operation: Operation, dependency: int) -> None:
    """Skip a new operation whose dependency did not end as required.

    Thanks to the row lock, an end that is just being recorded either comes first or sees the new operation.
    """
    locked = select(Operation.status, Operation.started_at).where(Operation.id == dependency).with_for_update(read=True)
    found = session.execute(locked).first()
    if found is None or Status(found.status) not in TERMINAL:
        return
    needs, started = Needs(operation.depends_needs), found.started_at is not None
    if not is_enough(needs, Status(found.status), started=started) and skip(session, operation.id, DEPENDENCY_FAILED):
        session.refresh(operation)


def waiting_exclusively(session: Session, lane: str) -> list[int]:
    """Return the exclusive operations that wait for the lane or a limit, or may start now."""
    waiting, judged = verdicts(session, clock.now(), only_lanes=[lane], everyone=True)
    ids = [waiter.id for waiter in waiting if waiter.lock_mode == LockMode.EXCLUSIVE]
    return [number for number in ids if _is_next_in_lane(judged[number])]


def _is_next_in_lane(verdict: Verdict) -> bool:
    """Whether an operation is next. One that waits for something else is not, and holds nobody up."""
    is_behind = verdict.reason is QueuedReason.REPOSITORY_BUSY and verdict.behind_id is not None
    return is_behind or verdict.reason in (None, QueuedReason.LIMIT_REACHED)


def claim(session: Session, runner_id: str, spool_root: str, *, capacity: int) -> list[int]:
    """Claim up to `capacity` operations that may start now, and return their ids."""
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
    """Start one given operation if the rules allow it now; return the verdict.

    Without `spool_root`, its spool, if any, is on another machine.
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
    return Verdict(QueuedReason.REPOSITORY_BUSY)  # cancelled, or too far back in the queue to be judged


def serialise_claims(session: Session) -> None:
    """Allow one claim at a time, so that lanes and limits are judged by the current state.

    On SQLite, the write lock already ensures this.
    """
    if session.get_bind().dialect.name == "postgresql":
        session.execute(_CLAIM_LOCK)


def start(session: Session, waiter: Waiter, runner_id: str, spool_root: str | None) -> bool:
    """Set a pending operation to running. The store itself refuses a second holder of an exclusive lane."""
    other = aliased(Operation)
    conflicting = exists().where(
        other.lock_key == waiter.lock_key,
        has_status(other, Status.RUNNING),
        excludes(other.lock_mode, literal(waiter.lock_mode or "")),
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


_CLAIM_LOCK = select(func.pg_advisory_xact_lock(CLAIM_LOCK))
