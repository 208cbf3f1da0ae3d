"""Behaviour specific to an index in PostgreSQL."""

import threading

import pytest

from holdfast.history.errors import (
    HistoryError,
    IndexBusy,
    IndexDamaged,
    IndexMissing,
    IndexUnavailable,
    IndexVersionMismatch,
)
from holdfast.history.index import HistoryIndex
from holdfast.history.postgres import Pool, PostgresStore
from tests.unit.history.conftest import NUMBERS
from tests.unit.history.model import Model, a_file, archive_of, check_search
from tests.unit.history.sources import listing_of
from tests.unit.history.test_index import add_listing


@pytest.fixture
def schema() -> str:
    return f"special_{next(NUMBERS)}"


def test_opening_a_missing_schema_is_refused(pool: Pool, schema: str) -> None:
    with pytest.raises(IndexMissing):
        PostgresStore(pool, schema)


def test_an_index_is_created_once_and_forgotten_completely(pool: Pool, schema: str) -> None:
    index = HistoryIndex(PostgresStore.create(pool, schema))
    with pytest.raises(IndexBusy):
        PostgresStore.create(pool, schema)
    assert HistoryIndex(PostgresStore(pool, schema)).generation == index.generation
    assert index.stats().bytes > 0
    index.forget()
    with pytest.raises(IndexMissing):
        index.archives()


def test_two_repositories_in_one_database_do_not_see_each_other(pool: Pool, schema: str) -> None:
    one, two = HistoryIndex(PostgresStore.create(pool, schema)), HistoryIndex(PostgresStore.create(pool, schema + "b"))
    add_listing(one, Model(), "a", archive_of(a_file(b"x/one")))
    add_listing(two, Model(), "a", archive_of(a_file(b"y/two")))
    for _ in range(8):  # often enough for the driver to prepare the statements
        assert [hit.path for hit in one.search("o").hits] == [b"x/one"]
        assert [hit.path for hit in two.search("o").hits] == [b"y/two"]


def test_a_second_ingest_is_refused_while_one_runs(pool: Pool, schema: str) -> None:
    index = HistoryIndex(PostgresStore.create(pool, schema))
    other = HistoryIndex(PostgresStore(pool, schema))

    def look_around(_: int) -> None:
        with pytest.raises(IndexBusy):
            other.ingest_listing("c", listing_of([]))
        assert other.archives() == []

    index.ingest_listing("b", listing_of([a_file(b"y")]), progress=look_around)
    other.ingest_listing("c", listing_of([a_file(b"z")]))
    assert [one.engine_id for one in index.archives()] == ["b", "c"]


def test_another_version_and_a_foreign_schema_are_distinguished(pool: Pool, schema: str) -> None:
    PostgresStore.create(pool, schema)
    with pool.connection() as connection:
        connection.execute(f"UPDATE {schema}.meta SET value = '99' WHERE key = 'version'".encode())
    with pytest.raises(IndexVersionMismatch):
        PostgresStore(pool, schema)
    with pool.connection() as connection:
        connection.execute(f"DELETE FROM {schema}.meta".encode())
    with pytest.raises(IndexDamaged):
        PostgresStore(pool, schema)


@pytest.mark.parametrize("name", ["", "Upper", 'a"b', "a;b", "a b", "1a", "x" * 70])
def test_an_invalid_schema_name_is_refused(pool: Pool, name: str) -> None:
    with pytest.raises(ValueError, match="not a name"):
        PostgresStore(pool, name)


def test_a_lost_connection_makes_the_index_unavailable(pool: Pool, schema: str) -> None:
    index = HistoryIndex(PostgresStore.create(pool, schema))

    def cut(_: int) -> None:
        with pool.connection() as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND pid <> pg_backend_pid()"
            )

    with pytest.raises(IndexUnavailable):
        index.ingest_listing("a", listing_of([a_file(b"x")]), progress=cut)
    index.ingest_listing("a", listing_of([a_file(b"x")]))
    assert [entry.path for entry in index.entries("a")] == [b"x"]


def test_without_the_trigram_extension_names_are_searched_one_by_one(
    pool: Pool, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.history.postgres.postgres_search", lambda: ["CREATE EXTENSION no_such_extension"])
    index, model = HistoryIndex(PostgresStore.create(pool, schema)), Model()
    add_listing(
        index, model, "a", archive_of(a_file(b"dir/Some_Name%d"), a_file("dir/Straße".encode()), a_file(b"odd\xff"))
    )
    for query in ("some_", "STRASSE", "dir/s", "\udcff", "me%", "zzz", "o", "/"):
        check_search(index, model, query)


def test_readers_see_complete_archives_while_one_is_replaced(pool: Pool, schema: str) -> None:
    index, model = HistoryIndex(PostgresStore.create(pool, schema)), Model()
    add_listing(index, model, "a", archive_of(*(a_file(b"f%d" % n) for n in range(30))))
    wrong: list[object] = []
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            try:
                count = len(list(index.entries("a")))
            except HistoryError as error:
                count = error  # type: ignore[assignment]
            if count not in (30, 50):
                wrong.append(count)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for round_ in range(4):
        add_listing(index, model, "a", archive_of(*(a_file(b"f%d" % n) for n in range(50 if round_ % 2 else 30))))
        index.sweep()
    stop.set()
    for reader in readers:
        reader.join()
    assert wrong == []
