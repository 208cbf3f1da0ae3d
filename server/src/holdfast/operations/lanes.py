"""Which operations may start, and what the others wait for. Pure rules, without access to the store."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from backup_engine.frozen import frozen
from holdfast.operations.status import HELD_BY_PAUSE, LockMode


class QueuedReason(StrEnum):
    REPOSITORY_BUSY = "repository_busy"
    LIMIT_REACHED = "limit_reached"
    AGENT_OFFLINE = "agent_offline"
    AGENT_UNSUPPORTED = "agent_unsupported"
    PAUSED = "paused"
    DEPENDENCY = "dependency"


class Waiter(NamedTuple):
    """A pending operation, reduced to the fields that the rules need. A list creates thousands of them."""

    id: int
    trigger: str
    lock_key: str | None
    lock_mode: str | None
    limit_group: str | None
    depends_on_id: int | None = None
    available_at: datetime | None = None
    executor: str = "runner"
    agent_reason: QueuedReason | None = None


@frozen
class Holder:
    """A running operation, reduced to the fields that the rules need."""

    id: int
    lock_key: str | None
    lock_mode: str | None
    limit_group: str | None


@frozen
class Verdict:
    """The decision on one waiter: start if the reason is None, otherwise wait, perhaps behind an operation."""

    reason: QueuedReason | None = None
    behind_id: int | None = None

    @property
    def may_start(self) -> bool:
        return self.reason is None


MAY_START = Verdict()


@dataclass(slots=True)
class _Lane:
    exclusive: int | None = None
    shared: int | None = None
    waiting_exclusive: int | None = None
    waiting_shared: int | None = None

    def blocker(self, mode: str | None) -> int | None:
        """Return the operation that keeps a newcomer with this mode out: a holder of the lane or an earlier waiter."""
        if mode == LockMode.EXCLUSIVE:
            for candidate in (self.exclusive, self.shared, self.waiting_exclusive, self.waiting_shared):
                if candidate is not None:
                    return candidate
            return None
        return self.exclusive if self.exclusive is not None else self.waiting_exclusive

    def hold(self, operation_id: int, mode: str | None) -> None:
        if mode == LockMode.EXCLUSIVE:
            self.exclusive = operation_id
        elif self.shared is None:
            self.shared = operation_id

    def wait(self, operation_id: int, mode: str | None) -> None:
        if mode == LockMode.EXCLUSIVE:
            self.waiting_exclusive = self.waiting_exclusive or operation_id
        else:
            self.waiting_shared = self.waiting_shared or operation_id


@dataclass(slots=True)
class _Counter:
    limits: Mapping[str, int]
    total: int
    running: dict[str, int] = field(default_factory=dict)

    def add(self, group: str | None) -> None:
        if group is not None:
            self.running[group] = self.running.get(group, 0) + 1

    def is_full(self, group: str | None) -> bool:
        if group is None:
            return False
        if sum(self.running.values()) >= self.total:
            return True
        return group in self.limits and self.running.get(group, 0) >= self.limits[group]


def full_groups(running: Iterable[Holder], limits: Mapping[str, int], total: int) -> frozenset[str]:
    """Return the groups that have reached their limit while these operations run."""
    counter = _Counter(limits, total)
    for holder in running:
        counter.add(holder.limit_group)
    return frozenset(group for group in limits if counter.is_full(group))


def judge(
    waiting: Iterable[Waiter],
    running: Iterable[Holder],
    *,
    limits: Mapping[str, int],
    total: int,
    paused: bool,
    now: datetime,
) -> dict[int, Verdict]:
    """Given the waiting operations in queue order and the running ones, return a verdict for each waiting one.

    No operation overtakes an earlier waiter that it would block. A waiter that cannot start for a reason of its own
    (paused, a dependency, an offline agent, a back-off) does not hold up those behind it; one that waits for its lane
    or for a limit does.
    """
    lanes: dict[str, _Lane] = {}
    counter = _Counter(limits, total)
    for holder in running:
        counter.add(holder.limit_group)
        if holder.lock_key is not None:
            lanes.setdefault(holder.lock_key, _Lane()).hold(holder.id, holder.lock_mode)
    verdicts: dict[int, Verdict] = {}
    for waiter in waiting:
        verdicts[waiter.id] = _judge_one(waiter, lanes, counter, paused=paused, now=now)
    return verdicts


def reason_of_its_own(waiter: Waiter, *, paused: bool) -> Verdict | None:
    """Return the verdict on a waiter that has to wait regardless of lanes and limits; None if these decide."""
    if paused and waiter.trigger in HELD_BY_PAUSE:
        return Verdict(QueuedReason.PAUSED)
    if waiter.depends_on_id is not None:
        return Verdict(QueuedReason.DEPENDENCY, waiter.depends_on_id)
    return Verdict(waiter.agent_reason) if waiter.agent_reason is not None else None


def _judge_one(waiter: Waiter, lanes: dict[str, _Lane], counter: _Counter, *, paused: bool, now: datetime) -> Verdict:
    own = reason_of_its_own(waiter, paused=paused)
    if own is not None:
        return own
    lane = lanes.setdefault(waiter.lock_key, _Lane()) if waiter.lock_key is not None else None
    blocker = lane.blocker(waiter.lock_mode) if lane else None
    backing_off = waiter.available_at is not None and waiter.available_at > now
    if lane is not None and blocker is not None:
        if not backing_off:
            lane.wait(waiter.id, waiter.lock_mode)
        return Verdict(QueuedReason.REPOSITORY_BUSY, blocker)
    if backing_off:
        # Only a lock held by another program causes a back-off.
        return Verdict(QueuedReason.REPOSITORY_BUSY)
    if counter.is_full(waiter.limit_group):
        if lane is not None:
            lane.wait(waiter.id, waiter.lock_mode)
        return Verdict(QueuedReason.LIMIT_REACHED)
    counter.add(waiter.limit_group)
    if lane is not None:
        lane.hold(waiter.id, waiter.lock_mode)
    return MAY_START
