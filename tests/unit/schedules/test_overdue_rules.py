"""When scheduled work is overdue, derived from the schedules alone."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.archives.constant_rules import ConstantRules
from holdfast.kit import clock
from holdfast.schedules.models import Schedule
from holdfast.schedules.overdue_rules import ScheduleRules
from holdfast.storage.session import Database
from tests.support.evidence import add_agent_machine, add_repository
from tests.support.stores import KINDS, a_store

HOUR, DAY = 3_600.0, 86_400.0


@pytest.fixture(params=KINDS)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    with a_store(request.param, tmp_path) as opened:
        yield opened


def add_schedule(database: Database, **values: Any) -> int:
    now = clock.now()
    with database.writing() as session:
        schedule = Schedule(
            **{
                "uuid": uuid.uuid4().hex,
                "name": uuid.uuid4().hex,
                "targets": {"all": True},
                "steps": [{"kind": "backup"}],
                "longest_gap_seconds": int(DAY),
                "created_at": now,
                "updated_at": now,
                **values,
            }
        )
        session.add(schedule)
        session.flush()
        return schedule.id


def add(database: Database, **values: Any) -> int:
    with database.writing() as session:
        return add_repository(session, **values).id


def rules(database: Database, of: ScheduleRules | None = None) -> dict[int, dict[str, tuple[float, int | None]]]:
    with database.reading() as session:
        found = (of or ScheduleRules(ConstantRules())).of_all(session)
    return {
        number: {cell: (rule.seconds, rule.schedule_id) for cell, rule in cells.items()}
        for number, cells in found.items()
    }


def test_a_backup_is_overdue_a_quarter_of_its_gap_after_it_was_due(database: Database) -> None:
    repository = add(database)
    assert rules(database)[repository]["backup"] == (7 * DAY, None)
    daily = add_schedule(database)
    assert rules(database)[repository]["backup"] == (DAY + 6 * HOUR, daily)


@pytest.mark.parametrize(
    ("gap", "spread", "expected"),
    [(HOUR, 0, 2 * HOUR), (7 * DAY, 0, 8 * DAY), (DAY, 30, DAY + 6.5 * HOUR), (2 * HOUR, 0, 3 * HOUR)],
)
def test_the_grace_period_is_between_an_hour_and_a_day(
    database: Database, gap: float, spread: int, expected: float
) -> None:
    repository = add(database)
    add_schedule(database, longest_gap_seconds=int(gap), spread_minutes=spread)

    assert rules(database)[repository]["backup"][0] == expected


def test_steps_that_run_every_few_days_have_their_own_threshold(database: Database) -> None:
    repository = add(database)
    schedule = add_schedule(
        database, steps=[{"kind": "backup"}, {"kind": "script"}, {"kind": "check", "every_days": 7}, {"kind": "prune"}]
    )
    found = rules(database)[repository]

    assert found["check"] == (8 * DAY + 6 * HOUR, schedule)
    assert found["prune"] == (DAY + 6 * HOUR, schedule)
    assert found["compact"][1] is None
    assert "script" not in found


def test_the_shortest_of_several_schedules_counts(database: Database) -> None:
    repository = add(database)
    add_schedule(database, longest_gap_seconds=int(7 * DAY))
    hourly = add_schedule(database, longest_gap_seconds=int(HOUR))
    add_schedule(database, longest_gap_seconds=int(DAY))

    assert rules(database)[repository]["backup"] == (2 * HOUR, hourly)


def test_only_enabled_schedules_that_still_exist_count(database: Database) -> None:
    repository = add(database)
    add_schedule(database, enabled=False)
    add_schedule(database, deleted_at=clock.now())

    assert rules(database)[repository]["backup"][1] is None


def test_targets_are_selected_by_id_and_by_labels_of_repository_and_agent(database: Database) -> None:
    with database.writing() as session:
        agent = add_agent_machine(session, labels={"site": "north"}).id
    labelled = add(database, labels={"site": "north", "tier": "1"})
    of_agent = add(database, agent_machine_id=agent, labels={"tier": "1"})
    plain = add(database)
    by_label = add_schedule(
        database, targets={"labels": {"site": "north", "tier": "1"}}, exclude_repository_ids=[of_agent]
    )
    by_id = add_schedule(database, targets={"repository_ids": [plain, 999]}, longest_gap_seconds=int(HOUR))
    found = {number: cells["backup"][1] for number, cells in rules(database).items()}

    assert found == {labelled: by_label, of_agent: None, plain: by_id}


def test_cached_rules_see_later_changes(database: Database) -> None:
    kept = ScheduleRules(ConstantRules())
    repository = add(database)
    assert rules(database, kept)[repository]["backup"][1] is None
    schedule = add_schedule(database)
    assert rules(database, kept)[repository]["backup"] == (DAY + 6 * HOUR, schedule)
    with database.writing() as session:
        changed = session.get_one(Schedule, schedule)
        changed.enabled, changed.revision = False, changed.revision + 1
    assert rules(database, kept)[repository]["backup"][1] is None
    another = add(database)
    assert another in rules(database, kept)
