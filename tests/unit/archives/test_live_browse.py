"""One folder read from the engine's listing."""

from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.archives.live_browse import page_of_listing
from holdfast.history.entry import Entry
from holdfast.history.errors import InvalidCursor, ListingFailed
from holdfast.history.index import HistoryIndex
from holdfast.history.sqlite import SqliteStore
from tests.unit.history.model import a_directory, a_file, a_link
from tests.unit.history.sources import listing_of, record

TREE = (
    a_directory(b"home"),
    a_directory(b"home/empty"),
    a_file(b"home/b"),
    a_file(b"home/a"),
    a_file(b"home/caf\xe9"),
    a_link(b"home/link", b"a"),
    a_file(b"implied/deep/below/f"),
    a_file(b"homely"),
)


def listing(folder: Path, *entries: Entry) -> Path:
    file = folder / "listing"
    file.write_bytes(b"".join(record(entry) + b"\0" for entry in entries))
    return file


def names(folder: Path, directory: bytes, *entries: Entry) -> list[bytes] | None:
    page = page_of_listing(listing(folder, *(entries or TREE)), directory, 100, None)
    return [entry.path for entry in page.entries] if page.exists else None


def test_a_folder_shows_only_its_own_entries_in_order(tmp_path: Path) -> None:
    assert names(tmp_path, b"home") == [b"home/a", b"home/b", b"home/caf\xe9", b"home/empty", b"home/link"]
    assert names(tmp_path, b"home/empty") == []


def test_unlisted_parents_are_shown_as_folders(tmp_path: Path) -> None:
    page = page_of_listing(listing(tmp_path, *TREE), b"implied", 100, None)

    assert [(entry.path, entry.is_implicit, entry.type) for entry in page.entries] == [(b"implied/deep", True, "d")]
    assert names(tmp_path, b"") == [b"home", b"homely", b"implied"]


@pytest.mark.parametrize("directory", [b"nowhere", b"hom", b"home/a", b"home/a/below", b"home/link"])
def test_a_path_that_is_not_a_folder_does_not_exist(tmp_path: Path, directory: bytes) -> None:
    assert names(tmp_path, directory) is None


def test_the_last_of_two_entries_with_the_same_path_wins(tmp_path: Path) -> None:
    page = page_of_listing(listing(tmp_path, a_file(b"f", size=1), a_file(b"f", size=2)), b"", 100, None)

    assert [entry.size for entry in page.entries] == [2]


def test_the_root_itself_is_not_among_its_entries(tmp_path: Path) -> None:
    assert names(tmp_path, b"", a_directory(b"."), a_file(b"f")) == [b"f"]


def test_a_page_of_the_listing_equals_that_of_the_index(tmp_path: Path) -> None:
    index = HistoryIndex(SqliteStore.create(tmp_path / "history.db"))
    index.ingest_listing("archive", listing_of(TREE))
    for directory in (b"", b"home", b"home/empty", b"implied", b"implied/deep", b"homely", b"nowhere"):
        for limit in (2, 100):
            by_engine = page_of_listing(listing(tmp_path, *TREE), directory, limit, None)
            by_index = index.browse("archive", directory, limit=limit)
            assert by_engine == replace(by_index, total=None, facts={})  # counting would require reading to the end
    index.close()


def test_each_page_starts_where_the_previous_one_ended(tmp_path: Path) -> None:
    output = listing(tmp_path, *TREE)
    first = page_of_listing(output, b"home", 2, None)
    second = page_of_listing(output, b"home", 2, first.next_cursor)
    third = page_of_listing(output, b"home", 2, second.next_cursor)

    assert [entry.path for page in (first, second, third) for entry in page.entries] == names(tmp_path, b"home")
    assert third.next_cursor is None


@pytest.mark.parametrize("cursor", ["nonsense", "WyJicm93c2UiLCAienoiXQ"])
def test_a_cursor_of_something_else_is_refused(tmp_path: Path, cursor: str) -> None:
    with pytest.raises(InvalidCursor):
        page_of_listing(listing(tmp_path, *TREE), b"home", 2, cursor)


def test_a_truncated_listing_is_refused(tmp_path: Path) -> None:
    output = listing(tmp_path, *TREE)
    output.write_bytes(output.read_bytes()[:-5])

    with pytest.raises(ListingFailed):
        page_of_listing(output, b"home", 100, None)
