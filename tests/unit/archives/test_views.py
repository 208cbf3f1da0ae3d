"""Changes and path history when some archives are not indexed."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy.orm import Session

from holdfast.archives import changes_view, path_view
from holdfast.archives.coverage import IndexedArchives
from holdfast.archives.schemas import Changes, PathHistoryAnswer, SearchAnswer
from holdfast.history.entry import Entry
from holdfast.history.index import HistoryIndex
from holdfast.history.sqlite import SqliteStore
from holdfast.repositories import archive_records
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.models import Repository
from holdfast.storage.session import Database
from tests.unit.archives.records import a_repository, an_archive, day
from tests.unit.history.model import a_directory, a_file
from tests.unit.history.sources import listing_of


@pytest.fixture
def index(tmp_path: Path) -> Iterator[HistoryIndex]:
    opened = HistoryIndex(SqliteStore.create(tmp_path / "history.db"))
    yield opened
    opened.close()


class Shelf:
    """A repository with indexed and unindexed archives."""

    def __init__(self, session: Session, index: HistoryIndex) -> None:
        self.session = session
        self.index = index
        self.repository: Repository = a_repository(session)
        self.archives: dict[str, Archive] = {}

    def put(self, name: str, *entries: Entry, at: float | None = None, series: str = "s", indexed: bool = True) -> None:
        start = day(len(self.archives) if at is None else at)
        state = "indexed" if indexed else "pending"
        self.archives[name] = an_archive(self.session, self.repository, name, start, series=series, history_state=state)
        if indexed:
            self.index.ingest_listing(self.archives[name].engine_id, listing_of(entries))

    def ids(self, *names: str) -> list[int]:
        return [self.archives[name].id for name in names]

    def changes(self, name: str, compare_to: str | None = None) -> Changes:
        other = self.archives[compare_to] if compare_to else None
        return changes_view.changes(
            self.session,
            self.index,
            IndexedArchives.of(self.index),
            self.archives[name],
            other,
            prefix=b"",
            kinds=(),
            limit=100,
            cursor=None,
        )

    def history(self, path: bytes, index: HistoryIndex | None = None) -> PathHistoryAnswer:
        opened = index or self.index
        archives = archive_records.all_of(self.session, self.repository.id)
        return path_view.path_history(opened, IndexedArchives.of(opened), archives, path)

    def search(self, query: str, index: HistoryIndex | None) -> SearchAnswer:
        archives = archive_records.all_of(self.session, self.repository.id)
        wanted = path_view.NameQuery(query, limit=10, cursor=None, deleted_only=False)
        return path_view.search(index, IndexedArchives.of(index), archives, wanted)


@pytest.fixture
def shelf(database: Database, index: HistoryIndex) -> Iterator[Shelf]:
    with database.writing() as session:
        yield Shelf(session, index)


ONE, TWO = a_file(b"f", size=1), a_file(b"f", size=2)


def test_the_nearest_indexed_predecessor_is_compared_and_the_gap_is_reported(shelf: Shelf) -> None:
    shelf.put("a", ONE)
    shelf.put("b", indexed=False)
    shelf.put("c", TWO)
    found = shelf.changes("c")

    assert found.compare_to_id == shelf.archives["a"].id
    assert [row.change for row in found.changes] == ["modified"]
    assert (found.incomplete, found.unindexed_archive_ids) == (True, shelf.ids("b"))


def test_unindexed_archives_outside_the_compared_range_are_not_gaps(shelf: Shelf) -> None:
    shelf.put("before", indexed=False)
    shelf.put("a", ONE)
    shelf.put("b", TWO)
    shelf.put("after", indexed=False)

    assert shelf.changes("b").incomplete is False
    assert shelf.changes("a", "b").incomplete is False


def test_unindexed_archives_between_two_compared_ones_are_gaps_in_both_directions(shelf: Shelf) -> None:
    shelf.put("a", ONE)
    shelf.put("b", indexed=False)
    shelf.put("c", ONE)
    shelf.put("d", TWO)

    for pair in (("d", "a"), ("a", "d")):
        assert shelf.changes(*pair).unindexed_archive_ids == shelf.ids("b")


def test_an_unindexed_archive_shows_no_changes_and_is_reported_as_a_gap(shelf: Shelf) -> None:
    shelf.put("a", ONE)
    shelf.put("b", indexed=False)
    found = shelf.changes("b")

    assert (found.changes, found.history_state) == ([], "pending")
    assert (found.incomplete, found.unindexed_archive_ids) == (True, shelf.ids("b"))
    assert shelf.changes("a", "b").unindexed_archive_ids == shelf.ids("b")


def test_without_an_indexed_predecessor_all_earlier_archives_are_gaps(shelf: Shelf) -> None:
    shelf.put("a", indexed=False)
    shelf.put("b", indexed=False)
    shelf.put("c", ONE)
    found = shelf.changes("c")

    assert found.compare_to_id is None
    assert found.unindexed_archive_ids == shelf.ids("a", "b")


def test_archives_between_two_of_different_series_are_not_gaps(shelf: Shelf) -> None:
    shelf.put("a", ONE)
    shelf.put("gap", indexed=False)
    shelf.put("other", TWO, series="t")
    found = shelf.changes("other", "a")

    assert [row.change for row in found.changes] == ["modified"]
    assert found.incomplete is False


def test_archives_with_the_same_start_are_ordered_by_their_ids(shelf: Shelf) -> None:
    shelf.put("a", ONE, at=0)
    shelf.put("b", TWO, at=0)

    assert shelf.changes("b").compare_to_id == shelf.archives["a"].id
    assert shelf.changes("a").compare_to_id is None


def test_a_state_that_the_index_does_not_confirm_counts_as_not_indexed(shelf: Shelf) -> None:
    """For example after the index file was deleted: nothing may be reported as unchanged."""
    shelf.put("a", ONE)
    shelf.put("b", TWO)
    shelf.index.remove([shelf.archives["b"].engine_id])
    found = shelf.changes("b")

    assert (found.history_state, found.incomplete) == ("pending", True)
    assert shelf.history(b"f").coverage.unindexed_archive_ids == shelf.ids("b")


def test_without_an_index_nothing_is_covered(shelf: Shelf) -> None:
    shelf.put("a", ONE)
    covered = IndexedArchives.of(None)
    archives = archive_records.all_of(shelf.session, shelf.repository.id)
    found = path_view.path_history(None, covered, archives, b"f")

    assert (found.entries, found.coverage.indexed, found.coverage.total) == ([], 0, 1)
    assert shelf.search("f", None).coverage.unindexed_archive_ids == shelf.ids("a")


def test_archives_that_will_never_be_indexed_are_skipped_unless_they_failed(shelf: Shelf) -> None:
    shelf.put("a", indexed=False)
    shelf.archives["a"].history_state = "pending"
    assert IndexedArchives.of(shelf.index, kept=False).state(shelf.archives["a"]) == "skipped"
    shelf.archives["a"].history_state = "failed"
    assert IndexedArchives.of(shelf.index, kept=False).state(shelf.archives["a"]) == "failed"


# --- path history ---------------------------------------------------------------------------------------------------


def ranges(shelf: Shelf, found: PathHistoryAnswer) -> list[tuple[str | None, str | None, list[int]]]:
    names = {archive.id: name for name, archive in shelf.archives.items()}
    return [
        (names[one.from_archive_id], names.get(one.to_archive_id or 0), one.unindexed_archive_ids)
        for one in found.present
    ]


def test_an_unindexed_archive_inside_a_range_is_reported(shelf: Shelf) -> None:
    shelf.put("a", ONE)
    shelf.put("b", indexed=False)
    shelf.put("c", ONE)
    found = shelf.history(b"f")

    assert ranges(shelf, found) == [("a", None, shelf.ids("b"))]
    assert [entry.change for entry in found.entries] == ["added"]


def test_an_unindexed_archive_at_the_end_does_not_end_the_range(shelf: Shelf) -> None:
    """Absence is never inferred from an unindexed archive."""
    shelf.put("a", ONE)
    shelf.put("b", indexed=False)
    found = shelf.history(b"f")

    assert ranges(shelf, found) == [("a", None, [])]
    assert found.present_in_latest is True
    assert found.coverage.unindexed_archive_ids == shelf.ids("b")


def test_each_series_has_its_own_path_history(shelf: Shelf) -> None:
    shelf.put("a", ONE)
    shelf.put("other", TWO, series="t")
    shelf.put("b", ONE)
    shelf.put("other, later", series="t")
    found = shelf.history(b"f")

    assert ranges(shelf, found) == [("a", None, []), ("other", "other", [])]
    assert [(entry.archive_name, entry.change) for entry in found.entries] == [
        ("a", "added"),
        ("other", "added"),
        ("other, later", "removed"),
    ]


def test_a_range_ends_with_the_last_archive_that_has_the_path(shelf: Shelf) -> None:
    shelf.put("a", ONE)
    shelf.put("b", TWO)
    shelf.put("c")
    shelf.put("d", indexed=False)
    shelf.put("e", TWO)
    found = shelf.history(b"f")

    assert ranges(shelf, found) == [("a", "b", []), ("e", None, [])]
    assert [entry.change for entry in found.entries] == ["added", "modified", "removed", "added"]


def test_archives_indexed_out_of_order_are_shown_in_order(shelf: Shelf) -> None:
    shelf.put("late", TWO, at=5)
    shelf.put("early", ONE, at=1)
    found = shelf.history(b"f")

    assert [entry.archive_name for entry in found.entries] == ["early", "late"]
    assert ranges(shelf, found) == [("early", None, [])]


def test_an_unlisted_folder_has_no_history_and_is_not_found(shelf: Shelf) -> None:
    shelf.put("a", a_file(b"above/f"))

    assert shelf.history(b"above").entries == []
    assert [hit.path for hit in shelf.search("above/f", shelf.index).results] == ["above/f"]
    assert shelf.search("above", shelf.index).results == []


def test_a_search_ignores_archives_that_are_no_longer_listed(shelf: Shelf) -> None:
    shelf.put("a", ONE, a_directory(b"d"))
    shelf.put("b", ONE)
    archive_records.remove(shelf.session, [shelf.archives["a"]])
    shelf.session.flush()

    assert shelf.search("d", shelf.index).results == []
    (hit,) = shelf.search("f", shelf.index).results
    assert (hit.archive_count, hit.first_seen) == (1, shelf.archives["b"].id)


def test_a_modification_time_centuries_ahead_is_shown(shelf: Shelf) -> None:
    shelf.put("a", a_file(b"f", mtime=int(timedelta(days=365 * 300).total_seconds()) * 1_000_000))

    assert shelf.history(b"f").entries[0].mtime == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=365 * 300)
