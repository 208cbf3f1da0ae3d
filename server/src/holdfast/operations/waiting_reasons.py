"""Which operations wait, and for what: the rules of `lanes` applied to the store."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Integer,
    Text,
    and_,
    bindparam,
    case,
    cast,
    column,
    exists,
    func,
    literal,
    null,
    or_,
    select,
    table,
    tuple_,
)
from sqlalchemy.orm import Session, aliased

from holdfast.kit import clock
from holdfast.operations import limits as kernel_limits
from holdfast.operations.lanes import Holder, QueuedReason, Verdict, Waiter, full_groups, judge
from holdfast.operations.models import Operation
from holdfast.operations.status import (
    HELD_BY_PAUSE,
    LockMode,
    Status,
)
from holdfast.storage.types import UtcDateTime

CANDIDATES = 1000
"""More than can start at once: what is left is found by the claim that the next change brings about."""


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


def anything_waiting(session: Session) -> bool:
    return session.scalar(_ANYTHING_WAITING) is not None


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


_ANYTHING_WAITING = (
    select(Operation.id).where(Operation.status == Status.PENDING, Operation.executor == "runner").limit(1)
)
