"""The file of an index: created whole, distinguished from other files, and readable whatever happened to its writer."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.history.errors import (
    HistoryError,
    IndexBusy,
    IndexDamaged,
    IndexMissing,
    IndexStorageFull,
    IndexUnavailable,
    IndexVersionMismatch,
)
from holdfast.history.index import HistoryIndex
from holdfast.history.sqlite import SqliteStore
from tests.unit.history.model import Model, a_file, archive_of, check_everything, check_search
from tests.unit.history.sources import listing_of
from tests.unit.history.test_index import add_listing

DEADLINE_SECONDS = 60.0


def test_opening_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(IndexMissing):
        SqliteStore(tmp_path / "none.db")
    assert not (tmp_path / "none.db").exists()


def test_a_new_index_leaves_no_other_file_behind(tmp_path: Path) -> None:
    SqliteStore.create(tmp_path / "new.db").close()
    assert [file.name for file in tmp_path.iterdir()] == ["new.db"]


def test_an_existing_index_is_not_overwritten(tmp_path: Path) -> None:
    index = HistoryIndex(SqliteStore.create(tmp_path / "one.db"))
    with pytest.raises(IndexBusy):
        SqliteStore.create(tmp_path / "one.db")
    assert HistoryIndex(SqliteStore(tmp_path / "one.db")).generation == index.generation


def test_each_index_has_its_own_generation_and_forgetting_it_leaves_no_file(tmp_path: Path) -> None:
    index = HistoryIndex(SqliteStore.create(tmp_path / "one.db"))
    add_listing(index, Model(), "a", archive_of(a_file(b"x")))
    old = index.generation
    index.forget()
    assert list(tmp_path.iterdir()) == []
    assert HistoryIndex(SqliteStore.create(tmp_path / "one.db")).generation != old


@pytest.mark.parametrize("content", [b"", b"not a database at all" * 500])
def test_a_file_that_is_not_an_index_is_reported_as_damaged(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.db").write_bytes(content)
    with pytest.raises(IndexDamaged):
        HistoryIndex(SqliteStore(tmp_path / "x.db"))


def test_a_foreign_database_is_reported_as_damaged(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "x.db") as foreign:
        foreign.execute("CREATE TABLE t(x)")
    with pytest.raises(IndexDamaged):
        SqliteStore(tmp_path / "x.db")


def test_an_index_of_another_version_is_distinguished_from_damage(tmp_path: Path) -> None:
    SqliteStore.create(tmp_path / "x.db").close()
    with sqlite3.connect(tmp_path / "x.db") as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(IndexVersionMismatch):
        SqliteStore(tmp_path / "x.db")


def test_overwritten_pages_are_always_detected(tmp_path: Path) -> None:
    file = tmp_path / "x.db"
    index = HistoryIndex(SqliteStore.create(file))
    add_listing(index, Model(), "a", archive_of(*(a_file(b"d%d/f%d" % (n % 7, n)) for n in range(3000))))
    index.close()
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("VACUUM")  # overwriting an empty page would go unnoticed
    whole = file.read_bytes()
    pages = len(whole) // 4096
    for page in range(1, pages, max(1, pages // 25)):
        broken = bytearray(whole)
        broken[page * 4096 : page * 4096 + 4096] = b"\xa5" * 4096
        file.write_bytes(broken)
        try:
            opened = HistoryIndex(SqliteStore(file))
            found = opened.damage()
            opened.close()
        except HistoryError:
            continue
        assert found, f"page {page} of {pages} was overwritten unnoticed"
    file.write_bytes(whole)
    assert HistoryIndex(SqliteStore(file)).damage() == []


def test_a_second_ingest_is_refused_while_one_runs_but_readers_continue(tmp_path: Path) -> None:
    index = HistoryIndex(SqliteStore.create(tmp_path / "x.db"))
    model = Model()
    add_listing(index, model, "a", archive_of(a_file(b"x")))
    other = HistoryIndex(SqliteStore(tmp_path / "x.db"))

    def look_around(_: int) -> None:
        with pytest.raises(IndexBusy):
            other.ingest_listing("c", listing_of([]))
        with pytest.raises(IndexBusy):
            other.sweep()
        assert [entry.path for entry in other.entries("a")] == [b"x"]
        assert [one.engine_id for one in index.archives()] == ["a"]

    index.ingest_listing("b", listing_of([a_file(b"y")]), progress=look_around)
    model.archives["b"] = {entry.path: entry for entry in index.entries("b")}
    check_search(other, model, "y")


def test_a_cancelled_ingest_adds_nothing_and_can_be_repeated(tmp_path: Path) -> None:
    class Cancelled(Exception):
        pass

    def cancel(_: int) -> None:
        raise Cancelled

    index = HistoryIndex(SqliteStore.create(tmp_path / "x.db"))
    with pytest.raises(Cancelled):
        index.ingest_listing("a", listing_of([a_file(b"x")]), progress=cancel)
    assert index.archives() == []
    index.ingest_listing("a", listing_of([a_file(b"x")]))
    assert [one.engine_id for one in index.archives()] == ["a"]


FILES = 2_000
INGEST_IN_SMALL_STEPS = f"""
import sys
from pathlib import Path
from holdfast.history.index import HistoryIndex
from holdfast.history.sqlite import SqliteStore
from holdfast.history import ingest
from tests.unit.history.model import a_file
from tests.unit.history.sources import listing_of
ingest._BATCH_RECORDS = 50
index = HistoryIndex(SqliteStore(Path(sys.argv[1])))
files = [a_file(b"dir%d/new%d" % (n % 100, n)) for n in range({FILES})]
print("ready", flush=True)
index.ingest_listing("big", listing_of(files), progress=lambda count: print(count, flush=True))
print("done", flush=True)
"""


@pytest.mark.parametrize("written", [0, 500_000, 2_000_000])
def test_a_killed_ingest_leaves_the_old_state_readable_and_can_be_repeated(tmp_path: Path, written: int) -> None:
    file = tmp_path / "x.db"
    index = HistoryIndex(SqliteStore.create(file))
    model = Model()
    add_listing(index, model, "before", archive_of(*(a_file(b"dir%d/old%d" % (n % 10, n)) for n in range(500))))
    index.close()
    with subprocess.Popen([sys.executable, "-c", INGEST_IN_SMALL_STEPS, str(file)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        grown = file.with_name("x.db-wal")
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not grown.exists() or grown.stat().st_size < written:
            assert time.monotonic() < deadline
            if process.poll() is not None:
                break
        process.send_signal(signal.SIGKILL)
        process.wait()
    index = HistoryIndex(SqliteStore(file))
    assert index.damage() == []
    assert {one.engine_id for one in index.archives()} <= {"before", "big"}
    assert {entry.path for entry in index.entries("before")} == set(model.archives["before"])
    files = archive_of(*(a_file(b"dir%d/new%d" % (n % 100, n)) for n in range(FILES)))
    add_listing(index, model, "big", files)
    assert {entry.path for entry in index.entries("big")} == set(files)
    index.remove(["big"])
    index.sweep()
    del model.archives["big"]
    check_everything(index, model, random.Random(1))


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_a_full_disk_raises_a_clear_error_and_the_index_stays_intact(tmp_path: Path) -> None:
    mount = tmp_path / "small"
    mount.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", mount], check=False, capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip("this machine does not let us mount a tmpfs")
    try:
        index = HistoryIndex(SqliteStore.create(mount / "x.db"))
        model = Model()
        add_listing(index, model, "before", archive_of(*(a_file(b"old%d" % n) for n in range(150))))
        with pytest.raises(IndexStorageFull):
            index.ingest_listing("big", listing_of(a_file(b"dir%d/new%d" % (n % 100, n)) for n in range(20_000)))
        assert [one.engine_id for one in index.archives()] == ["before"]
        assert {entry.path for entry in index.entries("before")} == set(model.archives["before"])
        check_search(index, model, "old12")
        index.close()
        reopened = HistoryIndex(SqliteStore(mount / "x.db"))
        assert reopened.damage() == []
        subprocess.run(["mount", "-o", "remount,size=16m", mount], check=True)
        reopened.sweep()
        add_listing(reopened, model, "after", archive_of(*(a_file(b"later%d" % n) for n in range(150))))
        check_everything(reopened, model, random.Random(1))
        reopened.close()
    finally:
        subprocess.run(["umount", "--lazy", mount], check=True)


def test_readers_in_several_threads_see_complete_archives_while_one_is_replaced(tmp_path: Path) -> None:
    index = HistoryIndex(SqliteStore.create(tmp_path / "x.db"))
    model = Model()
    sizes = {300, 500}
    add_listing(index, model, "a", archive_of(*(a_file(b"f%d" % n) for n in range(300))))
    wrong: list[object] = []
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            try:
                count = len(list(index.entries("a")))
                if count not in sizes:
                    wrong.append(count)
            except HistoryError as error:
                wrong.append(error)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for round_ in range(4):
        add_listing(index, model, "a", archive_of(*(a_file(b"f%d" % n) for n in range(500 if round_ % 2 else 300))))
        index.sweep()
    stop.set()
    for reader in readers:
        reader.join()
    assert wrong == []


def test_a_removed_file_is_noticed(tmp_path: Path) -> None:
    store = SqliteStore.create(tmp_path / "x.db")
    store.retire()  # closes every connection to it
    (tmp_path / "x.db").unlink()
    with pytest.raises((IndexMissing, IndexUnavailable)):
        HistoryIndex(store).archives()


def test_without_a_text_index_names_are_searched_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.history.sqlite.sqlite_search", lambda: ["CREATE VIRTUAL TABLE t USING no_such()"])
    index = HistoryIndex(SqliteStore.create(tmp_path / "x.db"))
    model = Model()
    add_listing(
        index, model, "a", archive_of(a_file(b"dir/Some_Name%d"), a_file("dir/Straße".encode()), a_file(b"odd\xff"))
    )
    for query in ("some_", "STRASSE", "dir/s", "\udcff", "me%", "zzz", "o", "/"):
        check_search(index, model, query)
    index.remove(["a"])
    assert index.sweep().names == 4
