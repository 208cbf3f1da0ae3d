"""Which operations wait, and for what: the rules of `lanes` applied to the store."""

from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Integer, Select, and_, bindparam, case, exists, null, or_, select, tuple_
from sqlalchemy.orm import Session, aliased

from holdfast.kit import clock
from holdfast.operations import limits as kernel_limits
from holdfast.operations import presence
from holdfast.operations.lanes import Holder, QueuedReason, Verdict, Waiter, full_groups, judge
from holdfast.operations.models import Operation
from holdfast.operations.presence import Presence
from holdfast.operations.status import ACTIVE, HELD_BY_PAUSE, LockMode, Status
from holdfast.storage.types import UtcDateTime

CANDIDATES = 1000
"""More than can start at once: the next change brings a claim that finds the others."""


FEW = 200
"""As many are judged in less time than it takes to find out which of them matter."""
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

    `agent_is_here`: the agent of these lanes is connected, so it is not silent, even if the store has it offline.
    """
    limits, paused = kernel_limits.read(session)
    running = [Holder(*row) for row in session.execute(_RUNNING).all()]
    by_group, total = limits.by_group(), limits.max_running_total
    if everyone:
        statement = _waiting(presence.current())
        values: dict[str, Any] = {}
    else:
        statement = _startable(presence.current())
        full = full_groups(running, by_group, total)
        values = {"now": now, "paused": int(paused), "full": sorted(full), "most": CANDIDATES}
    if only_lanes is not None:
        statement = statement.where(Operation.lock_key.in_(only_lanes))
    waiting = [_waiter(row) for row in session.execute(statement, values).all()]
    if agent_is_here:
        waiting = [_as_of_a_present_agent(waiter) for waiter in waiting]
    return waiting, judge(waiting, running, limits=by_group, total=total, paused=paused, now=now)


def verdicts_of(session: Session, now: datetime, operations: Sequence[Operation]) -> dict[int, Verdict]:
    """The verdicts of some waiting operations, as `verdicts` finds them for everyone.

    Where many wait, only those are judged on which these depend: the others in their lanes, and the first of each group
    that could start, because limits count them. A property test holds both ways equal.
    """
    if len(session.scalars(_SOME_WAITING).all()) <= FEW:
        return verdicts(session, now, everyone=True)[1]
    limits, paused = kernel_limits.read(session)
    running = [Holder(*row) for row in session.execute(_RUNNING).all()]
    by_group, total = limits.by_group(), limits.max_running_total
    full = full_groups(running, by_group, total)
    front: list[int] = []
    for group in session.scalars(_WAITING_GROUPS):
        if group is not None and group not in full:
            most = min(by_group.get(group, total), total)
            values = {"now": now, "paused": int(paused), "group": group, "most": most}
            front += session.scalars(_front(presence.current()), values)
    lanes = {operation.lock_key for operation in operations if operation.lock_key is not None}
    wanted = or_(
        Operation.lock_key.in_(sorted(lanes)), Operation.id.in_({*front, *(operation.id for operation in operations)})
    )
    waiting = map(_waiter, session.execute(_waiting(presence.current()).where(wanted)).all())
    return judge(waiting, running, limits=by_group, total=total, paused=paused, now=now)


def cannot_go_on(session: Session, lanes: Sequence[str]) -> frozenset[int]:
    """The operations in these lanes that will not start or progress unless something changes first.

    They are held, or wait for an agent that is offline or does not support them, or for another one that does.
    """
    waiting, judged = verdicts(session, clock.now(), only_lanes=lanes, everyone=True)
    silent = select(Operation.id).where(
        Operation.lock_key.in_(lanes),
        Operation.status == Status.RUNNING,
        Operation.executor == "agent",
        ~presence.current().is_online(Operation.machine_id),
    )
    stuck = set(session.scalars(silent))
    for waiter in sorted(waiting, key=lambda waiter: waiter.id):  # a dependency has the smaller id
        verdict = judged[waiter.id]
        if verdict.reason in HELD_UP or (verdict.reason is QueuedReason.DEPENDENCY and verdict.behind_id in stuck):
            stuck.add(waiter.id)
    return frozenset(stuck)


def _waiter(row: Any) -> Waiter:
    waiter = Waiter._make(row)
    return waiter._replace(agent_reason=QueuedReason(waiter.agent_reason)) if waiter.agent_reason else waiter


def _as_of_a_present_agent(waiter: Waiter) -> Waiter:
    return waiter._replace(agent_reason=None) if waiter.agent_reason is QueuedReason.AGENT_OFFLINE else waiter


def anything_waiting(session: Session) -> bool:
    return session.scalar(_ANYTHING_WAITING) is not None


_RUNNING = select(Operation.id, Operation.lock_key, Operation.lock_mode, Operation.limit_group).where(
    Operation.status == Status.RUNNING
)


def excludes(one: Any, other: Any) -> ColumnElement[bool]:
    """Whether two ways of holding a lane exclude each other: the rule of `lanes`, in SQL."""
    return or_(one == LockMode.EXCLUSIVE, other == LockMode.EXCLUSIVE)


@cache
def _waiting(agents: Presence) -> Select[Any]:
    """All that wait, in queue order, as `lanes.Waiter` wants them."""
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
        .where(Operation.status == Status.PENDING)
        .order_by(Operation.queue_rank, Operation.id)
    )


def _has_no_reason_of_its_own(waiter: Any, agents: Presence) -> ColumnElement[bool]:
    """The rules of `lanes` for a waiter that does not hold up those behind it, in SQL."""
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
    """Those that a runner may start as far as lanes go. A property test holds this equal to the rules of `lanes`.

    The others are left out before the queue is cut to a length that can be judged often: even many of them at the front
    must not hide one behind them.
    """
    return (
        _waiting(agents)
        .where(
            Operation.executor == "runner",
            or_(Operation.limit_group.is_(None), Operation.limit_group.not_in(bindparam("full", expanding=True))),
            *_lane_is_free(agents),
        )
        .limit(bindparam("most", type_=Integer))
    )


@cache
def _front(agents: Presence) -> Select[int]:
    """The first of a group, in queue order, that may start as far as lanes go, whoever executes them."""
    return (
        select(Operation.id)
        .where(
            Operation.status == Status.PENDING,
            Operation.limit_group == bindparam("group"),
            *_lane_is_free(agents),
        )
        .order_by(Operation.queue_rank, Operation.id)
        .limit(bindparam("most", type_=Integer))
    )


def _lane_is_free(agents: Presence) -> tuple[ColumnElement[bool], ...]:
    """The rules of `lanes` for a waiter that nothing but a limit may keep from starting, in SQL."""
    holder, earlier = aliased(Operation), aliased(Operation)
    return (
        _has_no_reason_of_its_own(Operation, agents),
        ~exists().where(
            holder.lock_key == Operation.lock_key,
            holder.status == Status.RUNNING,
            excludes(holder.lock_mode, Operation.lock_mode),
        ),
        ~exists().where(
            earlier.lock_key == Operation.lock_key,
            earlier.status == Status.PENDING,
            tuple_(earlier.queue_rank, earlier.id) < tuple_(Operation.queue_rank, Operation.id),
            excludes(earlier.lock_mode, Operation.lock_mode),
            _has_no_reason_of_its_own(earlier, agents),
        ),
    )


_SOME_WAITING = select(Operation.id).where(Operation.status == Status.PENDING).limit(FEW + 1)
_WAITING_GROUPS = select(Operation.limit_group).where(Operation.status == Status.PENDING).distinct()


_ANYTHING_WAITING = (
    select(Operation.id).where(Operation.status == Status.PENDING, Operation.executor == "runner").limit(1)
)
