"""The rules of the queue, written plainly and without regard to cost: `lanes.judge` must give the same results."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from holdfast.operations.lanes import Holder, QueuedReason, Verdict, Waiter


@dataclass(frozen=True)
class Expected:
    """The expected verdict on one waiting operation."""

    reason: QueuedReason | None
    behind: frozenset[int] = frozenset()
    """The verdict may name any of these as the one that it waits for; if this is empty, it must name none."""

    def allows(self, verdict: Verdict) -> bool:
        named = verdict.behind_id in self.behind if self.behind else verdict.behind_id is None
        return verdict.reason == self.reason and named


@dataclass(frozen=True)
class InLine:
    """An operation that blocks later ones on its lane: it holds the lane, starts now, or waits for its turn."""

    id: int
    lock_key: str | None
    lock_mode: str | None
    holds: bool


def conflict(one: str | None, other: str | None) -> bool:
    return "exclusive" in (one, other)


def expect(
    waiting: Sequence[Waiter],
    running: Sequence[Holder],
    *,
    limits: Mapping[str, int],
    total: int,
    paused: bool,
    now: datetime,
) -> dict[int, Expected]:
    """Given the ordered queue and the running operations, return the expected verdict on each waiting one."""
    in_line = [InLine(holder.id, holder.lock_key, holder.lock_mode, holds=True) for holder in running]
    groups = [holder.limit_group for holder in running if holder.limit_group is not None]
    expected: dict[int, Expected] = {}
    for waiter in waiting:
        own = _own_reason(waiter, paused=paused)
        if own is not None:
            expected[waiter.id] = own
            continue
        before = _in_the_way(waiter, in_line)
        backs_off = waiter.available_at is not None and waiter.available_at > now
        if before:
            expected[waiter.id] = Expected(QueuedReason.REPOSITORY_BUSY, _holders_first(before))
        elif backs_off:
            expected[waiter.id] = Expected(QueuedReason.REPOSITORY_BUSY)
        elif _is_full(waiter.limit_group, groups, limits, total):
            expected[waiter.id] = Expected(QueuedReason.LIMIT_REACHED)
        else:
            expected[waiter.id] = Expected(None)
            if waiter.limit_group is not None:
                groups.append(waiter.limit_group)
        if not backs_off:
            in_line.append(
                InLine(waiter.id, waiter.lock_key, waiter.lock_mode, holds=expected[waiter.id].reason is None)
            )
    return expected


def _own_reason(waiter: Waiter, *, paused: bool) -> Expected | None:
    if paused and waiter.trigger in ("followup", "reconcile"):
        return Expected(QueuedReason.PAUSED)
    if waiter.depends_on_id is not None:
        return Expected(QueuedReason.DEPENDENCY, frozenset({waiter.depends_on_id}))
    if waiter.agent_reason is not None:
        return Expected(waiter.agent_reason)
    return None


def _in_the_way(waiter: Waiter, in_line: Iterable[InLine]) -> list[InLine]:
    return [
        other
        for other in in_line
        if waiter.lock_key is not None
        and other.lock_key == waiter.lock_key
        and conflict(waiter.lock_mode, other.lock_mode)
    ]


def _holders_first(others: list[InLine]) -> frozenset[int]:
    holders = [other for other in others if other.holds]
    return frozenset(other.id for other in holders or others)


def _is_full(group: str | None, groups: list[str], limits: Mapping[str, int], total: int) -> bool:
    if group is None:
        return False
    return len(groups) >= total or groups.count(group) >= limits.get(group, total)
