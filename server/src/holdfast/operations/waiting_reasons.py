"""Which operations wait, and for what: the rules of `lanes`, applied to the store."""

from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Float,
    Integer,
    Select,
    and_,
    bindparam,
    case,
    exists,
    func,
    null,
    or_,
    select,
    tuple_,
)
from sqlalchemy.orm import Session, aliased

from holdfast.kit import clock
from holdfast.operations import agent_presence
from holdfast.operations import limits as kernel_limits
from holdfast.operations.agent_presence import Presence
from holdfast.operations.lanes import Holder, QueuedReason, Verdict, Waiter, full_groups, judge, reason_of_its_own
from holdfast.operations.models import Operation, has_status, waits_here
from holdfast.operations.status import ACTIVE, HELD_BY_PAUSE, LockMode, Status
from holdfast.storage.bulk import flushed_connection
from holdfast.storage.types import Identifier, UtcDateTime

CANDIDATES = 1000
"""More than can start at once: each later change triggers a claim that finds the rest."""

MANY = 1000
"""From this many on, judging the whole queue is cheaper than finding out which part matters."""
HELD_UP = frozenset({QueuedReason.PAUSED, QueuedReason.AGENT_OFFLINE, QueuedReason.AGENT_UNSUPPORTED})


def verdicts(
    session: Session,
    now: datetime,
    *,
    only_lanes: Sequence[str] | None = None,
    everyone: bool = False,
    agent_is_here: bool = False,
) -> tuple[list[Waiter], dict[int, Verdict]]:
    """Judge the waiting operations: all of them with `everyone`, otherwise only those that a runner could start.

    `agent_is_here`: the agent of these lanes is connected right now, even if the store still has it as offline.
    """
    limits, paused = kernel_limits.read(session)
    running = [Holder(*row) for row in session.execute(_RUNNING).all()]
    by_group, total = limits.by_group(), limits.max_running_total
    if only_lanes is not None:
        assert everyone, "what may start is looked for in all lanes"
        statement = _of_lanes(agent_presence.current())
        values: dict[str, Any] = {"lanes": list(only_lanes)}
    elif everyone:
        statement, values = _waiting(agent_presence.current()), {}
    else:
        statement = _startable(agent_presence.current())
        full = full_groups(running, by_group, total)
        values = {"now": now, "paused": int(paused), "full": sorted(full), "most": CANDIDATES}
    waiting = [_waiter(row) for row in session.execute(statement, values).all()]
    if agent_is_here:
        waiting = [_as_of_a_present_agent(waiter) for waiter in waiting]
    return waiting, judge(waiting, running, limits=by_group, total=total, paused=paused, now=now)


def verdicts_of(session: Session, now: datetime, operations: Sequence[Operation]) -> dict[int, Verdict]:
    """Return the verdicts on some waiting operations, equal to those of `verdicts` with `everyone`, at a cost that does
    not grow with the queue. A property test verifies that both agree.

    Only the operations on which these depend are judged. One with a reason of its own depends on no other, and one
    whose lane is held exclusively waits behind the holder; the rest depend on what waits in their lanes. Where a limit
    decides, the first startable operations of each group are judged too, because the limit counts them.
    """
    if len(operations) > MANY:
        return verdicts(session, now, everyone=True)[1]
    limits, paused = kernel_limits.read(session)
    connection = flushed_connection(session)
    running = [Holder(*row) for row in connection.execute(_RUNNING).all()]
    by_group, total = limits.by_group(), limits.max_running_total
    full = full_groups(running, by_group, total)

    def judged(ids: set[int]) -> tuple[list[Waiter], dict[int, Verdict]]:
        rows = connection.execute(_these(agent_presence.current()), {"ids": sorted(ids)})
        waiting = [_waiter(row) for row in rows.all()]
        return waiting, judge(waiting, running, limits=by_group, total=total, paused=paused, now=now)

    ids = {operation.id for operation in operations}
    waiting, found = judged(ids)
    held = {holder.lock_key for holder in running if holder.lock_mode == LockMode.EXCLUSIVE}
    undecided = {waiter.lock_key for waiter in waiting if reason_of_its_own(waiter, paused=paused) is None}
    lanes = sorted(lane for lane in undecided - held if lane is not None)
    neighbours = set(connection.scalars(_IDS_IN_LANES, {"lanes": lanes})) if lanes else set()
    if neighbours - ids:
        ids |= neighbours
        waiting, found = judged(ids)
    if any(_depends_on_limits(waiter, found[waiter.id], full) for waiter in waiting):
        for group in connection.scalars(_WAITING_GROUPS).all():
            if group is not None and group not in full:
                most = min(by_group.get(group, total), total)
                values = {"now": now, "paused": int(paused), "group": group, "most": most}
                ids |= set(connection.scalars(_front(agent_presence.current()), values))
        waiting, found = judged(ids)
    return found


def _depends_on_limits(waiter: Waiter, verdict: Verdict, full: frozenset[str]) -> bool:
    """Whether only a limit could keep this waiter from starting, so that other startable operations decide about it."""
    is_counted = waiter.limit_group is not None and waiter.limit_group not in full
    return is_counted and verdict.reason in (None, QueuedReason.LIMIT_REACHED)


def positions(session: Session, operations: Sequence[Operation]) -> dict[int, int]:
    """Return the positions of some waiting operations in the whole queue, counted from 1."""
    found: dict[int, int] = {}
    place, after = 0, (float("-inf"), 0)
    for operation in sorted(operations, key=lambda operation: (operation.queue_rank, operation.id)):
        upto = operation.queue_rank, operation.id
        bounds = {"after_rank": after[0], "after_id": after[1], "upto_rank": upto[0], "upto_id": upto[1]}
        place += session.scalar(_WAITING_BETWEEN, bounds) or 0
        found[operation.id], after = place, upto
    return found


def cannot_go_on(session: Session, lanes: Sequence[str]) -> frozenset[int]:
    """Return the operations in these lanes that will not start or progress until something else changes.

    They are held up, wait for an agent that is offline or does not support them, or wait for such an operation.
    """
    waiting, judged = verdicts(session, clock.now(), only_lanes=lanes, everyone=True)
    silent = select(Operation.id).where(
        Operation.lock_key.in_(lanes),
        has_status(Operation, Status.RUNNING),
        Operation.executor == "agent",
        ~agent_presence.current().is_online(Operation.machine_id),
    )
    stuck = set(session.scalars(silent))
    for waiter in sorted(waiting, key=lambda waiter: waiter.id):  # a dependency has the lower id
        verdict = judged[waiter.id]
        if verdict.reason in HELD_UP or (verdict.reason is QueuedReason.DEPENDENCY and verdict.behind_id in stuck):
            stuck.add(waiter.id)
    return frozenset(stuck)


def is_kept_from_readers(session: Session, lane: str) -> bool:
    """Whether an exclusive operation holds a lane or waits for it, whatever else it waits for."""
    return session.connection().execute(_EXCLUSIVE_IN_LANE, {"lane": lane}).first() is not None


def _waiter(row: Any) -> Waiter:
    waiter = Waiter._make(row)
    return waiter._replace(agent_reason=QueuedReason(waiter.agent_reason)) if waiter.agent_reason else waiter


def _as_of_a_present_agent(waiter: Waiter) -> Waiter:
    return waiter._replace(agent_reason=None) if waiter.agent_reason is QueuedReason.AGENT_OFFLINE else waiter


def anything_waiting(session: Session) -> bool:
    return session.scalar(_ANYTHING_WAITING) is not None


_RUNNING = select(Operation.id, Operation.lock_key, Operation.lock_mode, Operation.limit_group).where(
    has_status(Operation, Status.RUNNING)
)


def excludes(one: Any, other: Any) -> ColumnElement[bool]:
    """Whether two lock modes exclude each other: the rule of `lanes`, in SQL."""
    return or_(one == LockMode.EXCLUSIVE, other == LockMode.EXCLUSIVE)


def _rows(agents: Presence) -> Select[Any]:
    """Select operations in queue order, with the columns of `lanes.Waiter`."""
    dependency = aliased(Operation)
    agent_reason = case(
        (Operation.job_kind.is_(None), null()),
        (~agents.is_online(Operation.machine_id), str(QueuedReason.AGENT_OFFLINE)),
        (~agents.can(Operation.machine_id, Operation.job_kind), str(QueuedReason.AGENT_UNSUPPORTED)),
        else_=null(),
    )
    return (
        select(
            Operation.id,
            Operation.trigger,
            Operation.lock_key,
            Operation.lock_mode,
            Operation.limit_group,
            case((dependency.status.in_(ACTIVE), Operation.depends_on_id), else_=None),
            Operation.available_at,
            Operation.executor,
            agent_reason,
        )
        .outerjoin(dependency, dependency.id == Operation.depends_on_id)
        .order_by(Operation.queue_rank, Operation.id)
    )


@cache
def _waiting(agents: Presence) -> Select[Any]:
    """Select all waiting operations."""
    return _rows(agents).where(has_status(Operation, Status.PENDING))


@cache
def _these(agents: Presence) -> Select[Any]:
    """Select the given operations, as far as they wait."""
    return _rows(agents).where(Operation.id.in_(bindparam("ids", expanding=True)), _WAITS_AS_READ)


@cache
def _of_lanes(agents: Presence) -> Select[Any]:
    """Select all operations that wait in the given lanes."""
    return _rows(agents).where(Operation.id.in_(_IDS_IN_LANES), _WAITS_AS_READ)


_WAITS_AS_READ = Operation.status.concat("") == Status.PENDING
"""An expression that no index covers, so that the ids are looked up; SQLite would otherwise walk the whole queue."""

_in_lane = aliased(Operation)
_IDS_IN_LANES = select(_in_lane.id).where(
    has_status(_in_lane, Status.PENDING), _in_lane.lock_key.in_(bindparam("lanes", expanding=True))
)


def _has_no_reason_of_its_own(waiter: Any, agents: Presence) -> ColumnElement[bool]:
    """The condition, in SQL, that a waiter has no reason of its own to wait (the rules of `lanes`)."""
    awaited = aliased(Operation)
    return and_(
        or_(bindparam("paused", type_=Integer) == 0, waiter.trigger.not_in([str(word) for word in HELD_BY_PAUSE])),
        or_(waiter.available_at.is_(None), waiter.available_at <= bindparam("now", type_=UtcDateTime)),
        or_(
            waiter.depends_on_id.is_(None),
            ~exists().where(awaited.id == waiter.depends_on_id, awaited.status.in_(ACTIVE)),
        ),
        or_(waiter.job_kind.is_(None), agents.can(waiter.machine_id, waiter.job_kind)),
    )


@cache
def _startable(agents: Presence) -> Select[Any]:
    """Select the operations that a runner may start as far as lanes go. A property test compares this with `lanes`.

    The others are left out before the queue is cut to a length that can be judged often: even many of them at the front
    must not hide one behind them.
    """
    return (
        _rows(agents)
        .where(
            waits_here(Operation),
            or_(Operation.limit_group.is_(None), Operation.limit_group.not_in(bindparam("full", expanding=True))),
            *_lane_is_free(agents),
        )
        .limit(bindparam("most", type_=Integer))
    )


@cache
def _front(agents: Presence) -> Select[int]:
    """Select the first operations of a group, in queue order, that may start as far as lanes go, on any executor."""
    return (
        select(Operation.id)
        .where(
            has_status(Operation, Status.PENDING),
            Operation.limit_group == bindparam("group"),
            *_lane_is_free(agents),
        )
        .order_by(Operation.queue_rank, Operation.id)
        .limit(bindparam("most", type_=Integer))
    )


def _lane_is_free(agents: Presence) -> tuple[ColumnElement[bool], ...]:
    """The condition, in SQL, that only a limit may keep a waiter from starting (the rules of `lanes`)."""
    holder, earlier = aliased(Operation), aliased(Operation)
    return (
        _has_no_reason_of_its_own(Operation, agents),
        ~exists().where(
            holder.lock_key == Operation.lock_key,
            has_status(holder, Status.RUNNING),
            excludes(holder.lock_mode, Operation.lock_mode),
        ),
        ~exists().where(
            earlier.lock_key == Operation.lock_key,
            has_status(earlier, Status.PENDING),
            tuple_(earlier.queue_rank, earlier.id) < tuple_(Operation.queue_rank, Operation.id),
            excludes(earlier.lock_mode, Operation.lock_mode),
            _has_no_reason_of_its_own(earlier, agents),
        ),
    )


_leaps = (
    select(func.min(Operation.limit_group).label("name"))
    .where(has_status(Operation, Status.PENDING), Operation.limit_group.is_not(None))
    .cte("leaps", recursive=True)
)
_next_group = (
    select(func.min(Operation.limit_group))
    .where(has_status(Operation, Status.PENDING), Operation.limit_group > _leaps.c.name)
    .scalar_subquery()
)
_WAITING_GROUPS = select(_leaps.union_all(select(_next_group).where(_leaps.c.name.is_not(None))).c.name)
"""Found by skipping through the index, from group to group."""

_place = tuple_(Operation.queue_rank, Operation.id)
_WAITING_BETWEEN = select(func.count()).where(
    has_status(Operation, Status.PENDING),
    _place > tuple_(bindparam("after_rank", type_=Float), bindparam("after_id", type_=Identifier)),
    _place <= tuple_(bindparam("upto_rank", type_=Float), bindparam("upto_id", type_=Identifier)),
)


_EXCLUSIVE_IN_LANE = (
    select(Operation.id)
    .where(
        Operation.lock_key == bindparam("lane"),
        Operation.lock_mode == LockMode.EXCLUSIVE,
        or_(*(has_status(Operation, status) for status in ACTIVE)),
    )
    .limit(1)
)
_ANYTHING_WAITING = select(Operation.id).where(waits_here(Operation)).limit(1)
