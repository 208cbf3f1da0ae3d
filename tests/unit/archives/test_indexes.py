"""Indexes that are created, removed and damaged, in files and in PostgreSQL."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.archives.database_indexes import DatabaseIndexes, schema_of
from holdfast.archives.file_indexes import FileIndexes
from holdfast.archives.indexes import Indexes, indexes_for
from holdfast.errors import Unavailable
from holdfast.history.errors import IndexDamaged, IndexUnavailable
from holdfast.history.index import HistoryIndex
from holdfast.settings import Settings
from tests.support.postgres import postgres_server
from tests.unit.history.model import a_file
from tests.unit.history.sources import listing_of

NAME = "0123456789abcdef"


OpenIndexes = Callable[[], Indexes]


@pytest.fixture(params=["sqlite", "postgresql"])
def open_indexes(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenIndexes]:
    """Opens the indexes of one service, as each of its processes does."""
    url = postgres_server().create_database() if request.param == "postgresql" else None
    opened: list[Indexes] = []

    def open_them() -> Indexes:
        opened.append(DatabaseIndexes(url) if url else FileIndexes(tmp_path / "history"))
        return opened[-1]

    yield open_them
    for each in opened:
        each.close()


@pytest.fixture
def indexes(open_indexes: OpenIndexes) -> Indexes:
    return open_indexes()


def archives(index: HistoryIndex | None) -> list[str] | None:
    return [one.engine_id for one in index.archives()] if index else None


def test_there_is_no_index_until_one_is_written(indexes: Indexes) -> None:
    assert indexes.reading(NAME) is None
    made = indexes.writing(NAME)

    assert indexes.reading(NAME) is made
    assert indexes.size(NAME) > 0


def test_an_index_that_another_process_rebuilt_is_reopened(open_indexes: OpenIndexes) -> None:
    """Both have it open: one must not continue to read what the other has discarded."""
    mine, theirs = open_indexes(), open_indexes()
    theirs.writing(NAME).ingest_listing("old", listing_of([a_file(b"f")]))
    assert archives(mine.reading(NAME)) == ["old"]

    theirs.forget(NAME)
    assert mine.reading(NAME) is None
    theirs.writing(NAME).ingest_listing("new", listing_of([a_file(b"f")]))

    assert archives(mine.reading(NAME)) == ["new"]


def test_a_file_that_is_not_an_index_counts_as_missing_and_is_replaced_when_one_is_written(tmp_path: Path) -> None:
    indexes = FileIndexes(tmp_path)
    indexes.writing(NAME).ingest_listing("a", listing_of([a_file(b"f")]))
    indexes.close()
    file = next(path for path in (Path(indexes._folder)).glob(f"{NAME}.db"))
    file.write_bytes(b"not a database" * 1000)

    assert indexes.reading(NAME) is None
    assert archives(indexes.writing(NAME)) == []


def test_a_schema_that_is_not_an_index_counts_as_missing_and_is_replaced_when_one_is_written() -> None:
    indexes = DatabaseIndexes(postgres_server().create_database())
    indexes.writing(NAME).ingest_listing("a", listing_of([a_file(b"f")]))
    with indexes._pool.connection() as connection:
        connection.execute(f"DROP TABLE {schema_of(NAME)}.meta".encode())

    assert indexes.reading(NAME) is None
    assert archives(indexes.writing(NAME)) == []
    indexes.close()


def test_the_history_is_stored_where_the_operations_are(tmp_path: Path) -> None:
    url = "postgresql+psycopg://somebody@localhost/holdfast"

    assert isinstance(indexes_for(Settings(data_dir=tmp_path)), FileIndexes)
    assert isinstance(indexes_for(Settings(data_dir=tmp_path, database_url=url)), DatabaseIndexes)


def test_a_query_that_meets_damage_is_served_as_without_an_index(indexes: Indexes) -> None:
    indexes.writing(NAME)

    def question(index: HistoryIndex | None) -> str:
        if index is not None:
            raise IndexDamaged("a page is broken")
        return "nothing is indexed"

    assert indexes.ask(NAME, question) == "nothing is indexed"
    assert indexes.reading(NAME) is None, "it is thrown away, and the next run builds it anew"


def test_an_unavailable_index_returns_503_and_is_kept(indexes: Indexes) -> None:
    indexes.writing(NAME)

    def question(_index: HistoryIndex | None) -> None:
        raise IndexUnavailable("busy")

    with pytest.raises(Unavailable) as refused:
        indexes.ask(NAME, question)
    assert (refused.value.key, refused.value.retry_after) == ("archives.index_unavailable", 5)
    assert indexes.reading(NAME) is not None


def test_only_one_process_at_a_time_builds_an_index(open_indexes: OpenIndexes) -> None:
    mine, theirs = open_indexes(), open_indexes()
    with mine.building(NAME) as first, theirs.building(NAME) as second, theirs.building("another") as other:
        assert (first, second, other) == (True, False, True)
    with theirs.building(NAME) as again:
        assert again is True


def test_no_index_data_of_a_forgotten_repository_remains(indexes: Indexes, tmp_path: Path) -> None:
    with indexes.building(NAME):
        indexes.writing(NAME).ingest_listing("a", listing_of([a_file(b"f")]))
    indexes.writing("another")

    indexes.remove_all_of(NAME)

    assert list(tmp_path.glob(f"**/{NAME}*")) == []
    assert indexes.reading(NAME) is None
    assert indexes.reading("another") is not None
    assert indexes.size(NAME) == 0


def test_only_the_most_recently_used_indexes_stay_open(indexes: Indexes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search of all repositories queries every index: each would keep its file descriptors and its cached results."""
    monkeypatch.setattr("holdfast.archives.file_indexes.MOST_OPEN", 3)
    monkeypatch.setattr("holdfast.archives.database_indexes.MOST_OPEN", 3)
    first = indexes.writing("first")
    first.ingest_listing("old", listing_of([a_file(b"f")]))
    for number in range(10):
        indexes.writing(f"other{number}")
        assert indexes.reading("first") is first, "it is used again and again"
    for number in range(10):
        indexes.reading(f"other{number}")

    assert list(indexes._open) == ["other7", "other8", "other9"]  # type: ignore[attr-defined]
    assert archives(first) == ["old"], "whoever still has it goes on"
    first.ingest_listing("new", listing_of([a_file(b"f")]))
    assert archives(indexes.reading("first")) == ["old", "new"]


def test_an_index_that_is_no_longer_used_leaves_no_file_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.archives.file_indexes.MOST_OPEN", 1)
    indexes = FileIndexes(tmp_path / "history")
    first = indexes.writing("first")
    with first._store.write():
        indexes.writing("second")  # does not wait for the writer

    assert open_files(tmp_path / "history" / "first") == []
    assert open_files(tmp_path / "history" / "second") != []
    indexes.close()
    assert open_files(tmp_path / "history") == []


def open_files(prefix: Path) -> list[str]:
    links = (f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd"))
    return [os.readlink(link) for link in links if os.path.lexists(link) and os.readlink(link).startswith(str(prefix))]
