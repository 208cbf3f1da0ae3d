"""The lane rules exist in Python and in SQL: for any queue, both let the same operations start."""

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, insert, select
from sqlalchemy.orm import Session

from holdfast.operations import limits as kernel_limits
from holdfast.operations import waiting_reasons
from holdfast.operations.limits import LimitsChange
from holdfast.operations.locks import LOCKS, Access, Sharing
from holdfast.operations.models import KernelSetting, Operation
from holdfast.operations.status import LockMode, Trigger
from holdfast.storage.session import Database
from tests.unit.operations.kernel import AGENT, add_agent

NOW = datetime(2026, 1, 1, tzinfo=UTC)
COMMON = {
    "kind": "backup",
    "category": "backup",
    "priority": 0,
    "run_id": "",
    "machine_id": AGENT,
    "created_at": NOW,
}
AGENTS = st.sampled_from([("online", ("backup.create",)), ("online", ("backup.creates",)), ("offline", ())])


@st.composite
def rows(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Up to two holders that may run together, and waiters behind them."""
    made = []
    lanes = st.sampled_from([None, "a", "a", "b"])
    running = draw(st.integers(0, 2))
    for number in range(1, 1 + running + draw(st.integers(1, 9))):
        lane = draw(lanes) if number > running else ("a", "b")[number - 1]
        behind = draw(st.sampled_from([None, None, None, number - 1])) if number > max(running, 1) else None
        made.append(
            {
                "id": number,
                "status": "running" if number <= running else "pending",
                "trigger": draw(st.sampled_from([Trigger.MANUAL, Trigger.FOLLOWUP])),
                "queue_rank": float(draw(st.integers(1, 5))),
                "lock_key": lane,
                "lock_mode": draw(st.sampled_from(LockMode)) if lane else None,
                "limit_group": draw(st.sampled_from([None, "backup", "index"])),
                "depends_on_id": behind,
                "available_at": draw(st.sampled_from([None, None, NOW - timedelta(1), NOW + timedelta(1)])),
                "job_kind": draw(st.sampled_from([None, None, "backup.create"])),
            }
        )
    return made


def put_in_place(
    database: Database, operations: list[dict[str, Any]], limit: int, *, paused: bool, total: int = 8
) -> None:
    with database.writing() as session:
        for table in (Operation, KernelSetting):
            session.execute(delete(table))
        session.execute(insert(Operation), [{**COMMON, **row, "uuid": str(row["id"])} for row in operations])
        kernel_limits.put(session, "paused", paused)
        kernel_limits.change(session, LimitsChange(max_running_index=limit, max_running_total=total))


@pytest.mark.hypothesis  # the campaign generates new rows
def test_sql_and_the_rules_start_the_same_operations_and_each_is_judged_alone_as_among_all(
    database: Database,
) -> None:
    @settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
    @given(rows(), AGENTS, st.integers(1, 2), st.booleans())
    def hold_for(
        operations: list[dict[str, Any]], agent: tuple[str, tuple[str, ...]], limit: int, paused: bool
    ) -> None:
        add_agent(database, *agent)
        put_in_place(database, operations, limit, paused=paused, total=1 + 2 * limit)
        with database.reading() as session:
            _, by_rules = waiting_reasons.verdicts(session, NOW, everyone=True)
            _, by_sql = waiting_reasons.verdicts(session, NOW)
            waiting = session.scalars(select(Operation).where(Operation.status == "pending")).all()
            alone = {one.id: waiting_reasons.verdicts_of(session, NOW, [one])[one.id] for one in waiting}
        assert alone == by_rules
        starting = {number for number, verdict in by_rules.items() if verdict.may_start}
        assert {number for number, verdict in by_sql.items() if verdict.may_start} == starting

    hold_for()


def test_judging_a_few_of_many_waiting_operations_gives_the_same_verdicts_as_judging_all(database: Database) -> None:
    for seed in range(6):
        chance = random.Random(seed)
        add_agent(database, *chance.choice([("online", ("backup.create",)), ("offline", ())]))
        put_in_place(database, many(chance), chance.choice([1, 3, 20]), paused=chance.random() < 0.3)
        total = chance.choice([4, 12, 60])
        with database.writing() as session:
            kernel_limits.change(session, LimitsChange(max_running_total=total, max_running_backups=5))
        with database.reading() as session:
            everyone, by_rules = waiting_reasons.verdicts(session, NOW, everyone=True)
            waiting = session.scalars(select(Operation).where(Operation.status == "pending")).all()
            for first in range(0, len(waiting), 15):
                some = waiting[first : first + chance.choice([1, 5])]
                found = waiting_reasons.verdicts_of(session, NOW, some)
                assert {one.id: found[one.id] for one in some} == {one.id: by_rules[one.id] for one in some}
            some = chance.sample(waiting, 9)
            places = {waiter.id: number for number, waiter in enumerate(everyone, 1)}
            assert waiting_reasons.positions(session, some) == {one.id: places[one.id] for one in some}


def waiting_in_lanes_of_their_own(database: Database, number: int, row: dict[str, Any]) -> None:
    """One operation runs and all others wait, each in its own lane."""
    running = {"id": 1, "status": "running", "trigger": Trigger.MANUAL, "queue_rank": 0.0, "limit_group": "index"}
    plain = {"status": "pending", "trigger": Trigger.SCHEDULE, "lock_mode": LockMode.EXCLUSIVE, **row}
    waiters = [{**plain, "id": at, "queue_rank": float(at), "lock_key": f"lane {at}"} for at in range(2, number)]
    put_in_place(database, [running], 1, paused=False)
    with database.writing() as session:
        session.execute(insert(Operation), [{**COMMON, **one, "uuid": str(one["id"])} for one in waiters])


def instructions(session: Session, act: Callable[[], object]) -> int:
    """Count SQLite's instructions, in tens, for the second call: the number is the same on every machine."""
    act()
    connection = session.connection().connection.driver_connection
    assert connection is not None
    counted = count()
    connection.set_progress_handler(lambda: next(counted) < 0, 10)
    act()
    connection.set_progress_handler(None, 0)
    return next(counted)


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    "row",
    [
        pytest.param({"executor": "agent", "limit_group": None, "job_kind": "backup.create"}, id="for an agent"),
        pytest.param({"limit_group": "backup"}, id="a limit lets some of them start"),
        pytest.param({"limit_group": "index"}, id="the limit is reached"),
        pytest.param({"limit_group": "index", "depends_on_id": 1}, id="each needs another one"),
    ],
)
def test_the_cost_of_judging_the_operations_of_a_page_does_not_grow_with_the_queue(
    database: Database, row: dict[str, Any]
) -> None:
    add_agent(database, "online", ("backup.create",))
    took = {}
    for number in (50, 1000):
        waiting_in_lanes_of_their_own(database, number, row)
        with database.reading() as session:
            shown = session.scalars(select(Operation).order_by(Operation.id.desc()).limit(10)).all()
            took[number] = instructions(session, partial(waiting_reasons.verdicts_of, session, NOW, shown))
    assert took[1000] <= took[50] * 1.1 + 2


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_the_cost_of_a_claim_grows_no_faster_than_the_queue(database: Database) -> None:
    took = {}
    for number in (50, 500):
        waiting_in_lanes_of_their_own(database, number, {"limit_group": "backup"})
        with database.reading() as session:
            took[number] = instructions(session, partial(waiting_reasons.verdicts, session, NOW))
    assert took[500] <= took[50] * 12
    waiting_in_lanes_of_their_own(database, 500, {"executor": "agent", "limit_group": None})
    with database.reading() as session:
        assert instructions(session, partial(waiting_reasons.anything_waiting, session)) <= 2


def many(chance: random.Random) -> list[dict[str, Any]]:
    """Two holders, and waiters in more lanes than limits allow."""
    lanes = [None, *(f"lane {number}" for number in range(60))]
    made = []
    for number in range(1, 260):
        lane = chance.choice(lanes) if number > 2 else f"lane {number}"
        made.append(
            {
                "id": number,
                "status": "pending" if number > 2 else "running",
                "trigger": chance.choice([Trigger.MANUAL, Trigger.FOLLOWUP]),
                "queue_rank": float(chance.randrange(40)),
                "lock_key": lane,
                "lock_mode": chance.choice(list(LockMode)) if lane else None,
                "limit_group": chance.choice([None, "backup", "index", "maintenance"]),
                "depends_on_id": number - 1 if number > 3 and chance.random() < 0.1 else None,
                "available_at": chance.choice([None] * 8 + [NOW - timedelta(1), NOW + timedelta(1)]),
                "job_kind": chance.choice([None, None, "backup.create"]),
            }
        )
    return made


def test_the_lock_table_covers_every_access_and_every_sharing() -> None:
    assert {access: set(modes) for access, modes in LOCKS.items()} == {access: set(Sharing) for access in Access}


def test_without_sharing_every_lock_is_exclusive_and_a_change_always_needs_an_exclusive_lock() -> None:
    assert {modes[Sharing.NOTHING] for modes in LOCKS.values()} == {LockMode.EXCLUSIVE}
    assert set(LOCKS[Access.CHANGE].values()) == {LockMode.EXCLUSIVE}
