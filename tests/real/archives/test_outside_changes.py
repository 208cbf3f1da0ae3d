"""Archives that are removed, renamed and recreated behind the service's back; index files that disappear or break."""

import os

import pytest

from tests.real.archives.service import Installed, Shelf, wait_for_index
from tests.support.service import wait_until


@pytest.fixture
def shelf(by_chunks: Installed) -> Shelf:
    made = by_chunks.new_shelf()
    made.make("one", "two")
    made.resync()
    return made


def test_a_resync_reflects_archives_that_were_removed_renamed_and_recreated(shelf: Shelf) -> None:
    before = {name: one["id"] for name, one in shelf.archives().items()}
    place = shelf.repository["path"]
    shelf.make("three")
    shelf.resync()
    shelf.installed.own.run("rename", f"{place}::one", "renamed")
    shelf.installed.own.run("delete", f"{place}::two")
    shelf.make("two")

    assert shelf.run("resync") == ["completed"] * 3

    after = shelf.archives()
    assert set(after) == {"renamed", "three", "two"}
    assert after["two"]["id"] != before["two"], "an archive that was made again is another one"
    assert {one["history_state"] for one in after.values()} == {"indexed"}
    assert shelf.files_found() == {"only-in-one", "only-in-two", "only-in-three"}
    (hit,) = shelf.get("/search", q="only-in-one")["results"]
    assert (hit["first_seen"], hit["archive_count"]) == (after["renamed"]["id"], 1)
    run = shelf.history_runs()[-1]["result"]
    assert (run["indexed"], run["removed"]) == (2, 2)


def test_a_renamed_archive_keeps_the_backup_that_created_it(by_chunks: Installed) -> None:
    shelf = by_chunks.new_shelf()
    backup = shelf.client.wait_for_end(shelf.client.start_backup(shelf.repository))
    wait_for_index(shelf.client, shelf.repository)
    by_chunks.own.run("rename", f"{shelf.repository['path']}::{backup['archive_name']}", "elsewhere")

    assert shelf.run("resync") == ["completed"] * 3

    (archive,) = shelf.archives().values()
    assert (archive["name"], archive["backup_operation_id"]) == ("elsewhere", backup["id"])
    assert archive["nfiles"] == 3


def test_a_deleted_index_file_is_rebuilt_by_the_next_run(shelf: Shelf) -> None:
    shelf.index_file.unlink()

    assert set(shelf.states().values()) == {"pending"}, "nothing is said to be indexed that is not"
    assert shelf.files_found() == set()
    assert shelf.get("/search", q="only")["coverage"]["indexed"] == 0
    assert shelf.run("resync") == ["completed"] * 3
    assert set(shelf.states().values()) == {"indexed"}
    assert shelf.files_found() == {"only-in-one", "only-in-two"}


@pytest.mark.parametrize("where", ["beginning", "everywhere"])
def test_a_damaged_index_file_is_rebuilt_by_the_next_run(shelf: Shelf, where: str) -> None:
    file = shelf.index_file
    size = file.stat().st_size
    with file.open("r+b") as damaged:
        damaged.seek(0 if where == "beginning" else 100)
        damaged.write(os.urandom(size if where == "everywhere" else 4096))
    for leftover in (file.with_name(file.name + "-wal"), file.with_name(file.name + "-shm")):
        leftover.unlink(missing_ok=True)

    (archive,) = [one for one in shelf.archives().values() if one["name"] == "two"]
    answer = shelf.client.get(f"{shelf.url}/archives/{archive['id']}/changes")
    assert answer.status_code == 200, answer.text
    assert shelf.files_found() in (set(), {"only-in-one", "only-in-two"}), "nothing, or what is still known; no lie"

    assert shelf.run("resync") == ["completed"] * 3
    assert set(shelf.states().values()) == {"indexed"}
    assert shelf.files_found() == {"only-in-one", "only-in-two"}


def test_the_reconcile_tick_detects_a_missing_index(shelf: Shelf) -> None:
    shelf.index_file.unlink()

    assert shelf.client.post("/api/operations/reconcile").json()["enqueued"] >= 3
    wait_for_index(shelf.client, shelf.repository)

    assert set(shelf.states().values()) == {"indexed"}


def test_forgetting_a_repository_deletes_its_index(shelf: Shelf) -> None:
    name = shelf.uuid()
    folder = shelf.index_file.parent
    assert [path for path in folder.iterdir() if path.name.startswith(name)]

    answer = shelf.client.delete(shelf.url)

    assert answer.status_code in (200, 204), answer.text
    wait_until(lambda: not [path for path in folder.iterdir() if path.name.startswith(name)], what="it is gone")
