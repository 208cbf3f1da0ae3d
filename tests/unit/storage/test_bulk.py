"""Rows written in bulk equal those that the object mapper would have written."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, select

from holdfast.operations.models import OutboxEntry
from holdfast.schedules.models import ScheduleRun
from holdfast.storage.bulk import insert_many, next_ids, update_many
from holdfast.storage.session import Database
from tests.support.stores import KINDS, a_store

WHEN = datetime(2026, 3, 29, 1, 30, 0, 123456, tzinfo=UTC)
AWKWARD = 'it\'s 100 % "quoted" \\ é 漢 🗄 \n\t {0} :name ?'


@pytest.fixture(params=KINDS)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    with a_store(request.param, tmp_path) as opened:
        yield opened


def entry(number: int, **values: Any) -> dict[str, Any]:
    told = {"text": AWKWARD, "none": None, "list": [1, 2.5, True, {"deep": []}]}
    row = {"id": number, "created_at": WHEN, "topic": AWKWARD[:60], "operation_id": None, "payload": told}
    return {**row, "repository_id": 2**40, **values}


def run(repository_id: int, **values: Any) -> dict[str, Any]:
    row = {"schedule_id": 1, "repository_id": repository_id, "due_at": WHEN, "start_at": WHEN, "look_at": None}
    return row | {"due_count": 1, "revision": 1, "origin": "calendar", "outcome": "waiting", "tries": 0} | values


def rows_of(database: Database) -> list[ScheduleRun]:
    with database.reading() as session:
        return list(session.scalars(select(ScheduleRun).order_by(ScheduleRun.repository_id)))


def test_rows_written_in_bulk_equal_those_of_the_object_mapper(database: Database) -> None:
    elsewhere = WHEN.astimezone(timezone(timedelta(hours=5, minutes=30)))
    with database.writing() as session:
        session.add(OutboxEntry(**entry(1)))
        insert_many(session, OutboxEntry, [entry(2), entry(3, created_at=elsewhere)])
    with database.reading() as session:
        first, *others = session.scalars(select(OutboxEntry).order_by(OutboxEntry.id)).all()
    for other in others:
        for name in ("created_at", "topic", "operation_id", "repository_id", "payload"):
            assert getattr(other, name) == getattr(first, name)
    assert len(others) == 2


def test_nothing_is_written_without_rows(database: Database) -> None:
    with database.writing() as session:
        insert_many(session, OutboxEntry, [])
        update_many(session, ScheduleRun, [])
    assert rows_of(database) == []


def test_a_time_without_an_offset_is_refused(database: Database) -> None:
    with pytest.raises((TypeError, ValueError)), database.writing() as session:
        insert_many(session, OutboxEntry, [entry(1, created_at=WHEN.replace(tzinfo=None))])


def test_a_row_that_violates_a_unique_key_is_skipped_and_the_others_are_written(database: Database) -> None:
    with database.writing() as session:
        insert_many(session, ScheduleRun, [run(1, steps=[], options={})])
    with database.writing() as session:
        again = [run(number, steps=[], options={}, tries=7) for number in (1, 2)]
        insert_many(session, ScheduleRun, again, unless_there=True)
    assert [(row.repository_id, row.tries) for row in rows_of(database)] == [(1, 0), (2, 7)]


def test_each_row_gets_its_own_new_values_and_other_rows_are_unchanged(database: Database) -> None:
    with database.writing() as session:
        insert_many(session, ScheduleRun, [run(number, steps=[], options={}, result="failed") for number in (1, 2, 3)])
    first, second, _ = (row.id for row in rows_of(database))
    with database.writing() as session:
        changes: list[dict[str, Any]] = [
            {"id": first, "look_at": WHEN, "steps": [{"kind": AWKWARD}], "result": None},
            {"id": second, "look_at": None, "steps": [], "result": "completed"},
        ]
        update_many(session, ScheduleRun, changes)
    found = [(row.look_at, row.steps, row.result, row.tries) for row in rows_of(database)]
    assert found == [
        (WHEN, [{"kind": AWKWARD}], None, 0),
        (None, [], "completed", 0),
        (None, [], "failed", 0),
    ]


def test_ids_are_ascending_and_never_reused_even_after_their_rows_were_removed(database: Database) -> None:
    with database.writing() as session:
        first = next_ids(session, OutboxEntry, 3)
        insert_many(session, OutboxEntry, [entry(number) for number in first])
    with database.writing() as session:
        session.execute(delete(OutboxEntry))
    with database.writing() as session:
        session.add(OutboxEntry(**{name: value for name, value in entry(0).items() if name != "id"}))
        session.flush()
        second = next_ids(session, OutboxEntry, 2)
    assert first == sorted(first)
    assert len({*first, *second}) == 5
    assert min(second) > max(first) + 1, "the object mapper's own row has an id, too"
