"""`holdfast admin verify-index`, while the service is running."""

import os
import re
import subprocess
from contextlib import closing

import pytest

from holdfast.history.sqlite import SqliteStore
from tests.real.archives.service import Installed, Shelf
from tests.support.service import PATIENCE, PROGRAM


def verify(shelf: Shelf, *arguments: str, repository: str | None = None) -> tuple[int, list[str]]:
    """Run the command; return its exit code and its output."""
    environment = {**os.environ, **shelf.installed.process.environment}
    ran = subprocess.run(
        [
            *(PROGRAM, "admin", "verify-index", repository or shelf.repository["name"], *arguments),
            *("--data-dir", str(shelf.installed.folder / "data")),
        ],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    said = [line for line in (ran.stdout + ran.stderr).splitlines() if not line.startswith("{")]
    return ran.returncode, said


@pytest.fixture(scope="module")
def shelf(by_chunks: Installed) -> Shelf:
    made = by_chunks.new_shelf()
    made.make("one", "two")
    made.resync()
    return made


def plant_difference(shelf: Shelf, statement: str, *parameters: object) -> int:
    """Change the index directly; return how many rows were changed."""
    with closing(SqliteStore(shelf.index_file)) as store, store.write() as transaction:
        return transaction._connection.execute(statement, parameters).rowcount


def test_a_correct_index_is_reported_as_matching(shelf: Shelf) -> None:
    code, said = verify(shelf)

    assert said == [
        "one: 5 files, 0 differences",
        "two: 5 files, 0 differences",
        "The index matches the engine's listing.",
    ]
    assert code == 0


def test_the_repository_can_be_given_by_id_or_path_and_archives_can_be_selected(shelf: Shelf) -> None:
    for name in (str(shelf.repository["id"]), shelf.repository["path"]):
        code, said = verify(shelf, "--archive", "two", repository=name)
        assert (code, said[0]) == (0, "two: 5 files, 0 differences")
        assert len(said) == 2


def test_an_unknown_repository_or_archive_is_an_error(shelf: Shelf) -> None:
    code, said = verify(shelf, repository="no such repository")
    assert (code, said) == (1, ["holdfast: No repository is named no such repository."])
    code, said = verify(shelf, "--archive", "no such archive")
    assert code == 1
    assert "not every archive" in said[0].lower()


def test_every_planted_difference_is_reported_and_repaired_by_a_rebuild(by_chunks: Installed) -> None:
    shelf = by_chunks.new_shelf()
    shelf.make("one", "two")
    shelf.resync()
    both = "SELECT v.id FROM version v JOIN path p ON p.id = v.path JOIN name n ON n.id = p.name WHERE n.name = ?"
    assert plant_difference(shelf, f"UPDATE version SET size = 99 WHERE id IN ({both})", b"file-1") == 1
    assert plant_difference(shelf, "UPDATE name SET name = ? WHERE name = ?", b"file-X", b"file-2") == 1

    code, said = verify(shelf)

    assert code == 1
    for archive in ("one", "two"):
        told = {line for line in said if line.startswith(f"{archive}: ")}
        path = str(shelf.source).lstrip("/")
        assert told == {
            f"{archive}: {path}/file-1: differs in size",
            f"{archive}: {path}/file-2: missing in the index",
            f"{archive}: {path}/file-X: only in the index",
            f"{archive}: 5 files, 3 differences",
        }
    assert re.fullmatch(r"6 differences; repair with POST .*/rebuild and from=history\.", said[-1])

    assert shelf.run("rebuild", **{"from": "history"}) == ["completed"]
    assert verify(shelf)[0] == 0


def test_files_excluded_from_the_index_are_not_reported_as_differences(by_chunks: Installed) -> None:
    shelf = by_chunks.new_shelf(history_index_excludes=["*/file-1"])
    shelf.make("one")
    shelf.resync()

    assert verify(shelf) == (0, ["one: 4 files, 0 differences", "The index matches the engine's listing."])


def test_an_archive_that_is_not_indexed_is_reported(by_chunks: Installed) -> None:
    shelf = by_chunks.new_shelf()
    shelf.make("one")
    shelf.resync()
    shelf.client.put(shelf.url, json={"index_mode": "archives"})
    shelf.make("two")
    shelf.run("resync")

    code, said = verify(shelf)

    assert code == 1
    assert said[:2] == ["one: 5 files, 0 differences", "two: not indexed"]


def test_a_repository_without_an_index_is_an_error(by_chunks: Installed) -> None:
    shelf = by_chunks.new_shelf(index_mode="off")

    assert verify(shelf) == (1, ["holdfast: The repository has no file history."])


def test_a_failing_listing_is_reported_instead_of_differences(scripted: Installed) -> None:
    shelf = scripted.new_shelf()
    shelf.make("one")
    shelf.resync()
    with scripted.scripted.rule("*list*::one", "cut", 200):
        code, said = verify(shelf)

    assert code == 1
    assert said[0] == "one: the listing ends in the middle of a record"
