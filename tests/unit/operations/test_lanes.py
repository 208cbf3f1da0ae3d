"""`lanes.judge`, a pure function: checked with a table, and against the plainly written rules."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.operations.lanes import Holder, QueuedReason, Verdict, Waiter, judge
from holdfast.operations.status import Trigger
from tests.unit.operations.rules import conflict, expect

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(seconds=30)
EARLIER = NOW - timedelta(seconds=30)
GROUPS = ("backup", "restore", "maintenance", "index")

MAY_START = Verdict()
FULL = Verdict(QueuedReason.LIMIT_REACHED)


def busy(behind: int | None = None) -> Verdict:
    return Verdict(QueuedReason.REPOSITORY_BUSY, behind)


def writer(number: int, lane: str | None = "a", group: str | None = None, **more: Any) -> Waiter:
    return Waiter(number, more.pop("trigger", "manual"), lane, "exclusive" if lane else None, group, **more)


def reader(number: int, lane: str = "a", group: str | None = None, **more: Any) -> Waiter:
    return Waiter(number, more.pop("trigger", "manual"), lane, "shared", group, **more)


def writing(number: int, lane: str = "a", group: str | None = None) -> Holder:
    return Holder(number, lane, "exclusive", group)


def reading(number: int, lane: str = "a", group: str | None = None) -> Holder:
    return Holder(number, lane, "shared", group)


def verdicts(
    waiting: Sequence[Waiter],
    running: Sequence[Holder] = (),
    limits: dict[str, int] | None = None,
    total: int = 100,
    *,
    paused: bool = False,
) -> list[Verdict]:
    judged = judge(waiting, running, limits=limits or {}, total=total, paused=paused, now=NOW)
    assert list(judged) == [waiter.id for waiter in waiting]
    return list(judged.values())


TABLE: dict[str, tuple[Sequence[Waiter], Sequence[Holder], list[Verdict]]] = {
    "a free lane takes a writer": ([writer(1)], [], [MAY_START]),
    "a free lane takes any number of readers": ([reader(1), reader(2), reader(3)], [], [MAY_START] * 3),
    "readers join readers": ([reader(2)], [reading(1)], [MAY_START]),
    "a writer waits for a writer": ([writer(2)], [writing(1)], [busy(1)]),
    "a writer waits for a reader": ([writer(2)], [reading(1)], [busy(1)]),
    "a reader waits for a writer": ([reader(2)], [writing(1)], [busy(1)]),
    "the second of two writers waits for the first": ([writer(1), writer(2)], [], [MAY_START, busy(1)]),
    "a reader does not overtake a waiting writer": ([writer(2), reader(3)], [reading(1)], [busy(1), busy(2)]),
    "a writer does not overtake waiting readers": (
        [reader(2), reader(3), writer(4)],
        [writing(1)],
        [busy(1), busy(1), busy(1)],
    ),
    "a writer behind readers that start now waits for them": ([reader(1), writer(2)], [], [MAY_START, busy(1)]),
    "other lanes are not concerned": ([writer(2), writer(3, "b")], [writing(1)], [busy(1), MAY_START]),
    "work without a lane waits for nobody": ([writer(2, None)], [writing(1)], [MAY_START]),
    "a dependency is waited for": (
        [writer(2, depends_on_id=1)],
        [writing(1, "b")],
        [Verdict(QueuedReason.DEPENDENCY, 1)],
    ),
    "who waits for a dependency lets others pass": (
        [writer(2, depends_on_id=9), writer(3)],
        [],
        [Verdict(QueuedReason.DEPENDENCY, 9), MAY_START],
    ),
    "who backs off lets others pass": ([writer(1, available_at=LATER), writer(2)], [], [busy(), MAY_START]),
    "who backs off names the holder if there is one": ([writer(2, available_at=LATER)], [writing(1)], [busy(1)]),
    "a back-off that is over counts no more": ([writer(1, available_at=EARLIER), writer(2)], [], [MAY_START, busy(1)]),
    "a silent agent lets others pass": (
        [writer(1, agent_reason=QueuedReason.AGENT_OFFLINE), writer(2)],
        [],
        [Verdict(QueuedReason.AGENT_OFFLINE), MAY_START],
    ),
}


@pytest.mark.parametrize(("waiting", "running", "wanted"), TABLE.values(), ids=TABLE.keys())
def test_lanes(waiting: Sequence[Waiter], running: Sequence[Holder], wanted: list[Verdict]) -> None:
    assert verdicts(waiting, running) == wanted


def test_a_group_at_its_limit_waits_while_other_groups_start() -> None:
    waiting = [writer(1, "a", "backup"), writer(2, "b", "backup"), writer(3, "c", "index")]

    assert verdicts(waiting, limits={"backup": 1, "index": 1}) == [MAY_START, FULL, MAY_START]


def test_running_operations_count_towards_the_limits() -> None:
    assert verdicts([writer(2, "b", "backup")], [writing(1, "a", "backup")], {"backup": 1}) == [FULL]


def test_the_total_limits_all_groups_together() -> None:
    waiting = [writer(1, "a", "backup"), writer(2, "b", "index"), writer(3, "c", "restore")]

    assert verdicts(waiting, total=2) == [MAY_START, MAY_START, FULL]


def test_work_without_a_group_counts_towards_no_limit() -> None:
    waiting = [writer(1, "a"), writer(2, "b", "backup"), writer(3, "c")]

    assert verdicts(waiting, limits={"backup": 1}, total=1) == [MAY_START] * 3


def test_no_waiter_overtakes_on_a_lane_whose_next_operation_waits_for_a_limit() -> None:
    waiting = [writer(2, "b", "backup"), writer(3, "b", "index"), reader(4, "b", "index")]

    assert verdicts(waiting, [writing(1, "a", "backup")], {"backup": 1, "index": 5}) == [FULL, busy(2), busy(2)]


def test_nothing_starts_when_more_operations_run_than_the_limit_allows() -> None:
    running = [writing(1, "a", "backup"), writing(2, "b", "backup")]

    assert verdicts([writer(3, "c", "backup")], running, {"backup": 1}) == [FULL]


@pytest.mark.parametrize("trigger", Trigger)
def test_a_pause_holds_back_only_followups_and_reconciliation(trigger: Trigger) -> None:
    held = trigger in (Trigger.FOLLOWUP, Trigger.RECONCILE)

    assert verdicts([writer(1, trigger=trigger)], paused=True) == [Verdict(QueuedReason.PAUSED) if held else MAY_START]


def test_paused_work_lets_others_pass() -> None:
    assert verdicts([writer(1, trigger="followup"), writer(2)], paused=True) == [
        Verdict(QueuedReason.PAUSED),
        MAY_START,
    ]


# --- any queue --------------------------------------------------------------------------------------------------------

LANES = st.sampled_from([None, "a", "b", "c"])
MODES = st.sampled_from(["exclusive", "shared"])
GROUP = st.sampled_from([None, *GROUPS])


@st.composite
def queues(draw: st.DrawFn, *, own_reasons: bool = True) -> list[Waiter]:
    waiting = []
    for number in range(100, 100 + draw(st.integers(0, 12))):
        lane = draw(LANES)
        waiting.append(
            Waiter(
                number,
                draw(st.sampled_from([str(trigger) for trigger in Trigger])),
                lane,
                draw(MODES) if lane else None,
                draw(GROUP),
                draw(st.sampled_from([None, None, None, 1])) if own_reasons else None,
                draw(st.sampled_from([None, None, EARLIER, LATER])) if own_reasons else None,
                agent_reason=draw(st.sampled_from([None, None, QueuedReason.AGENT_OFFLINE])) if own_reasons else None,
            )
        )
    return waiting


@st.composite
def holders(draw: st.DrawFn) -> list[Holder]:
    """Holders that may run together: on each lane one writer, or readers."""
    running: list[Holder] = []
    for number in range(1, 1 + draw(st.integers(0, 6))):
        lane = draw(LANES)
        taken = [holder for holder in running if lane and holder.lock_key == lane]
        mode = draw(MODES) if lane else None
        if not any(conflict(mode, holder.lock_mode) for holder in taken):
            running.append(Holder(number, lane, mode, draw(GROUP)))
    return running


LIMITS = st.fixed_dictionaries({group: st.integers(1, 4) for group in GROUPS})


@settings(max_examples=120)
@given(queues(), holders(), LIMITS, st.integers(1, 6), st.booleans())
def test_every_queue_is_judged_according_to_the_rules(
    waiting: list[Waiter], running: list[Holder], limits: dict[str, int], total: int, paused: bool
) -> None:
    judged = judge(waiting, running, limits=limits, total=total, paused=paused, now=NOW)

    expected = expect(waiting, running, limits=limits, total=total, paused=paused, now=NOW)
    assert judged.keys() == expected.keys()
    assert [
        (number, judged[number], wanted) for number, wanted in expected.items() if not wanted.allows(judged[number])
    ] == []


@settings(max_examples=120)
@given(queues(), holders(), LIMITS, st.integers(1, 6), st.booleans())
def test_operations_that_may_start_never_violate_a_lane_or_a_limit(
    waiting: list[Waiter], running: list[Holder], limits: dict[str, int], total: int, paused: bool
) -> None:
    judged = judge(waiting, running, limits=limits, total=total, paused=paused, now=NOW)

    starting = [as_holder(waiter) for waiter in waiting if judged[waiter.id].may_start]
    together = [*running, *starting]
    for newcomer in starting:
        others = [other for other in together if other.id != newcomer.id and newcomer.lock_key is not None]
        assert not [
            other
            for other in others
            if other.lock_key == newcomer.lock_key and conflict(other.lock_mode, newcomer.lock_mode)
        ]
        if newcomer.limit_group is not None:
            counted = [holder.limit_group for holder in together if holder.limit_group is not None]
            assert counted.count(newcomer.limit_group) <= limits[newcomer.limit_group]
            assert len(counted) <= total


@settings(max_examples=120)
@given(queues(), holders(), LIMITS, st.integers(1, 6), st.booleans())
def test_no_waiter_overtakes_an_earlier_one_that_it_would_block(
    waiting: list[Waiter], running: list[Holder], limits: dict[str, int], total: int, paused: bool
) -> None:
    judged = judge(waiting, running, limits=limits, total=total, paused=paused, now=NOW)

    for place, waiter in enumerate(waiting):
        if not judged[waiter.id].may_start or waiter.lock_key is None:
            continue
        overtaken = [
            earlier
            for earlier in waiting[:place]
            if earlier.lock_key == waiter.lock_key
            and conflict(earlier.lock_mode, waiter.lock_mode)
            and waits_its_turn(earlier, judged[earlier.id])
        ]
        assert overtaken == []


@settings(max_examples=60)
@given(queues(own_reasons=False), LIMITS, st.integers(1, 6), st.data())
def test_every_waiter_starts_eventually(
    waiting: list[Waiter], limits: dict[str, int], total: int, data: st.DataObject
) -> None:
    running: list[Holder] = []
    left = list(waiting)
    while left:
        judged = judge(left, running, limits=limits, total=total, paused=False, now=NOW)
        starting = [waiter for waiter in left if judged[waiter.id].may_start]
        assert starting or running, "nobody runs and nobody may start"
        running += [as_holder(waiter) for waiter in starting]
        left = [waiter for waiter in left if waiter not in starting]
        if running:
            running.remove(data.draw(st.sampled_from(running), label="ends"))


def as_holder(waiter: Waiter) -> Holder:
    return Holder(waiter.id, waiter.lock_key, waiter.lock_mode, waiter.limit_group)


def waits_its_turn(waiter: Waiter, verdict: Verdict) -> bool:
    """Return whether it waits for its lane or a limit, not for a reason of its own."""
    if waiter.available_at is not None and waiter.available_at > NOW:
        return False
    return verdict.reason in (QueuedReason.REPOSITORY_BUSY, QueuedReason.LIMIT_REACHED)
