"""Cached values, and the rows that prove them current."""

import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, bindparam, select

from holdfast.storage.read_cache import Proof, Query, ReadCache, StoreVersion

THINGS = Table("things", MetaData(), Column("id", Integer), Column("worth", Integer))
ONE = Query(select(THINGS).where(THINGS.c.id == bindparam("wanted")), "wanted")


@pytest.fixture
def store(tmp_path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    connection.executescript("PRAGMA journal_mode=WAL; CREATE TABLE things (id, worth); CREATE TABLE others (id)")
    connection.execute("INSERT INTO things VALUES (1, 10)")
    return connection


def remembered(tmp_path: Path, proof: Proof) -> ReadCache[int]:
    return ReadCache(StoreVersion(str(tmp_path / "store.db")), 10, lambda _value: proof)


def worth(store: sqlite3.Connection) -> int:
    found: int = store.execute("SELECT worth FROM things WHERE id = 1").fetchone()[0]
    return found


def test_a_value_with_a_proof_survives_unrelated_commits(tmp_path: Path, store: sqlite3.Connection) -> None:
    values = remembered(tmp_path, ((ONE, 1),))
    values.read("key", lambda: worth(store))
    for _ in range(2):
        store.execute("INSERT INTO others VALUES (1)")
        assert values.get("key") == 10
    store.execute("UPDATE things SET worth = 11")
    assert values.get("key") is None
    assert values.get("key") is None, "nor after that"


def test_a_value_without_a_proof_is_discarded_by_the_next_commit(tmp_path: Path, store: sqlite3.Connection) -> None:
    values = remembered(tmp_path, ())
    values.read("key", lambda: worth(store))
    assert values.get("key") == 10
    store.execute("INSERT INTO others VALUES (1)")
    assert values.get("key") is None


def test_a_value_that_changed_while_it_was_read_is_not_cached(tmp_path: Path, store: sqlite3.Connection) -> None:
    values = remembered(tmp_path, ((ONE, 1),))

    def read() -> int:
        before = worth(store)
        store.execute("UPDATE things SET worth = 11")
        return before

    assert values.read("key", read) == 10
    assert values.get("key") is None


def test_a_value_is_discarded_when_its_row_is_deleted(tmp_path: Path, store: sqlite3.Connection) -> None:
    values = remembered(tmp_path, ((ONE, 1),))
    values.read("key", lambda: worth(store))
    store.execute("DELETE FROM things")
    assert values.get("key") is None
