"""Lists of operations: with any filter, a page equals what a scan of all rows would give."""

import functools
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import insert, select

from holdfast.errors import Unprocessable
from holdfast.kit import cursor
from holdfast.operations import pages
from holdfast.operations.models import Operation
from holdfast.operations.pages import Filter
from holdfast.operations.status import Status, Trigger
from holdfast.storage.session import Database
from tests.support.stores import KINDS, a_store

ROWS = 300
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
CATEGORIES = {
    "backup": "backup",
    "check": "maintenance",
    "prune": "maintenance",
    "history": "index",
    "script": "script",
}
REPOSITORIES = (1, 2, 3, 4)
TEXTS = ("repository_name", "triggered_by", "error_message")
STATUSES = [str(status) for status in Status]
TRIGGERS = [str(trigger) for trigger in Trigger]


@functools.cache
def a_past() -> list[dict[str, Any]]:
    """Rows of every sort, whose ids and times mostly, but not always, increase together."""
    chance = random.Random(7)
    rows = []
    for number in range(1, ROWS + 1):
        kind = chance.choice([*CATEGORIES, "backup", "backup"])
        repository = chance.choice(REPOSITORIES) if kind != "script" else None
        rows.append(
            {
                "id": number * 3,
                "uuid": f"{number:032d}",
                "kind": kind,
                "category": CATEGORIES[kind],
                "status": chance.choice(["completed"] * 6 + STATUSES),
                "trigger": chance.choice(["schedule"] * 6 + TRIGGERS),
                "priority": 0,
                "queue_rank": float(number),
                "run_id": f"run {number // 4}",
                "parent_id": number * 3 - 3 if chance.random() < 0.3 and number > 1 else None,
                "repository_id": repository,
                "repository_name": f"Files_{repository}%" if repository else None,
                "machine_id": chance.choice([None, None, 1, 2]),
                "triggered_by": chance.choice([None, "anna", "Bert"]),
                "error_message": chance.choice([None, None, "The DISK is full."]),
                "executor": "agent",
                "created_at": BEGIN + timedelta(minutes=number + chance.choice([0, 0, 0, -3, 3])),
                "attempt": 1,
                "log_base_line": 0,
                "params": {},
            }
        )
    return rows


@pytest.fixture(scope="module", params=KINDS)
def past(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with a_store(request.param, tmp_path_factory.mktemp("past")) as database:
        with database.writing() as session:
            session.execute(insert(Operation), a_past())
        yield database


def fits(row: dict[str, Any], narrowed: Filter) -> bool:
    """The filter, written plainly."""
    return all(
        (
            narrowed.repositories is None or row["repository_id"] in narrowed.repositories,
            not narrowed.of_repositories_only or row["repository_id"] is not None,
            narrowed.repository_id is None or row["repository_id"] == narrowed.repository_id,
            not narrowed.categories or row["category"] in narrowed.categories,
            not narrowed.kinds or row["kind"] in narrowed.kinds,
            not narrowed.statuses or row["status"] in narrowed.statuses,
            not narrowed.triggers or row["trigger"] in narrowed.triggers,
            narrowed.run_id is None or row["run_id"] == narrowed.run_id,
            narrowed.since is None or row["created_at"] >= narrowed.since,
            narrowed.until is None or row["created_at"] <= narrowed.until,
            narrowed.machine_id is None or row["machine_id"] == narrowed.machine_id,
            narrowed.triggered_by is None or (row["triggered_by"] or "").lower() == narrowed.triggered_by.lower(),
            narrowed.text is None or any(narrowed.text.lower() in (row[name] or "").lower() for name in TEXTS),
            not narrowed.parents_only or row["parent_id"] is None,
        )
    )


def newest_first(narrowed: Filter) -> list[int]:
    return [row["id"] for row in reversed(a_past()) if fits(row, narrowed)]


def some(values: list[str]) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from([*values, "unheard_of"]), max_size=3, unique=True).map(tuple)


MOMENTS = st.integers(-10, ROWS + 10).map(lambda minutes: BEGIN + timedelta(minutes=minutes))
FILTERS = st.builds(
    Filter,
    repositories=st.none() | st.frozensets(st.sampled_from([*REPOSITORIES, 99])),
    of_repositories_only=st.booleans(),
    repository_id=st.none() | st.sampled_from([*REPOSITORIES, 99]),
    categories=some(sorted(set(CATEGORIES.values()))),
    kinds=some(sorted(CATEGORIES)),
    statuses=some(STATUSES),
    triggers=some(TRIGGERS),
    run_id=st.sampled_from([None, None, None, "run 5", "run 999"]),
    since=st.none() | MOMENTS,
    until=st.none() | MOMENTS,
    machine_id=st.sampled_from([None, None, None, 1, 9]),
    triggered_by=st.sampled_from([None, None, None, "ANNA", "bert", "nobody"]),
    text=st.sampled_from([None, None, None, "s_1%", "disk", "_", "%", "\\", "b"]),
    parents_only=st.booleans(),
)


@settings(max_examples=80)
@given(narrowed=FILTERS, limit=st.integers(1, 40), below=st.none() | st.integers(0, ROWS * 3 + 5))
def test_a_page_equals_what_a_scan_of_all_rows_would_give(
    past: Database, narrowed: Filter, limit: int, below: int | None
) -> None:
    wanted = [number for number in newest_first(narrowed) if below is None or number < below]
    after = cursor.encode(below) if below is not None else None

    with past.reading() as session:
        found, following = pages.page(session, narrowed, limit, after)
        total = pages.total(session, narrowed)

    assert [operation.id for operation in found] == wanted[:limit]
    assert (following is not None) == (len(wanted) > limit)
    assert total == len(newest_first(narrowed))


@pytest.mark.parametrize(
    "narrowed",
    [
        pytest.param(Filter(), id="everything"),
        pytest.param(Filter(repositories=frozenset({1, 3})), id="of some repositories"),
        pytest.param(Filter(statuses=("failed", "cancelled"), triggers=("schedule",)), id="of some ends"),
        pytest.param(Filter(run_id="run 5"), id="of a run"),
        pytest.param(Filter(text="disk"), id="with a text"),
        pytest.param(Filter(triggered_by="anna", machine_id=1, repositories=frozenset({1, 3})), id="of a user"),
    ],
)
@pytest.mark.parametrize("at_a_time", [pages.MOST_SEARCHED, 100])
def test_following_the_cursor_shows_every_operation_once(
    past: Database, narrowed: Filter, at_a_time: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "MOST_SEARCHED", at_a_time)
    seen: list[int] = []
    after: str | None = None
    while True:
        with past.reading() as session:
            found, after = pages.page(session, narrowed, 7, after)
        seen += [operation.id for operation in found]
        if after is None:
            break

    assert seen == newest_first(narrowed) != []


def test_a_search_that_has_not_read_all_rows_returns_no_total(past: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MOST_SEARCHED", 100)
    monkeypatch.setattr(pages, "CREATED_SLACK", 10)

    with past.reading() as session:
        assert pages.total(session, Filter(text="disk")) is None
        assert pages.total(session, Filter(text="disk", since=BEGIN + timedelta(minutes=ROWS - 20))) is not None
        found, following = pages.page(session, Filter(text="no such text"), 10, None)

    assert found == []
    assert following is not None


def test_totals_are_counted_up_to_a_limit(past: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MOST_COUNTED", 20)

    with past.reading() as session:
        assert pages.total(session, Filter()) == 20
        assert pages.total(session, Filter(kinds=("backup", "check"))) == 20
        assert pages.total(session, Filter(run_id="run 5")) == 4


def test_new_operations_do_not_shift_the_page_behind_a_cursor(past: Database) -> None:
    with past.reading() as session:
        _, after = pages.page(session, Filter(), 10, None)
        before, _ = pages.page(session, Filter(), 10, after)
    newcomer = {**a_past()[0], "id": ROWS * 3 + 1, "uuid": "new"}
    with past.writing() as session:
        session.execute(insert(Operation), [newcomer])
    try:
        with past.reading() as session:
            again, _ = pages.page(session, Filter(), 10, after)
    finally:
        with past.writing() as session:
            session.execute(Operation.__table__.delete().where(Operation.id == newcomer["id"]))  # type: ignore[attr-defined]

    assert [operation.id for operation in again] == [operation.id for operation in before]


def test_a_cursor_of_another_list_is_refused(past: Database) -> None:
    with past.reading() as session, pytest.raises(Unprocessable):
        pages.page(session, Filter(), 10, cursor.encode("name", 3))


@pytest.mark.parametrize("repository", [1, 4, 99])
def test_the_latest_operations_of_several_kinds_are_the_newest_among_all_of_them(
    past: Database, repository: int
) -> None:
    kinds = ("check", "prune", "unheard_of")
    with past.reading() as session:
        found = pages.latest_of_kind(session, repository, kinds, 5)

    assert [operation.id for operation in found] == newest_first(Filter(repository_id=repository, kinds=kinds))[:5]


def test_all_rows_of_the_fixture_are_stored(past: Database) -> None:
    with past.reading() as session:
        assert sorted(session.scalars(select(Operation.id))) == [row["id"] for row in a_past()]
