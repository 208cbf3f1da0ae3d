"""Names of many kilobytes, and names with very many versions: a page ends before it is large, and the next one
continues there. Nothing is omitted, and no page takes much memory.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.archives.live_browse import page_of_listing
from holdfast.history import page_room
from holdfast.history.answers import BrowseSort
from holdfast.history.entry import Entry
from holdfast.history.index import HistoryIndex
from holdfast.history.page_room import MOST_TEXT
from holdfast.history.sqlite import SqliteStore
from tests.support.peak import MIB, growths_of
from tests.unit.history.sources import listing_of, record

NAMES = 600
LONG = 15_000
LIMIT = 5000


def long_entry(number: int, mtime: int = 1) -> Entry:
    name = b"%04d" % (number * 7919 % NAMES) + b"\x01" * LONG
    return Entry(b"folder/" + name, 0o100644, 0, 0, "root", "root", number, mtime)


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two archives with the same long names, each with another time in the second archive."""
    file = tmp_path_factory.mktemp("long-names") / "history.db"
    index = HistoryIndex(SqliteStore.create(file))
    for archive, mtime in (("one", 1), ("two", 2)):
        index.ingest_listing(archive, listing_of(long_entry(number, mtime) for number in range(NAMES)))
    index.close()
    return file


@pytest.fixture
def index(indexed: Path) -> Any:
    opened = HistoryIndex(SqliteStore(indexed))
    yield opened
    opened.close()


def pages(ask: Callable[[str | None], Any]) -> list[Any]:
    found = [ask(None)]
    while found[-1].next_cursor is not None:
        found.append(ask(found[-1].next_cursor))
    return found


@pytest.mark.parametrize("sort", list(BrowseSort))
def test_pages_of_a_folder_with_long_names_are_short_and_contain_every_name_once(
    index: HistoryIndex, sort: BrowseSort
) -> None:
    found = pages(lambda cursor: index.browse("one", b"folder", limit=LIMIT, cursor=cursor, sort=sort))

    paths = [entry.path for page in found for entry in page.entries]
    assert sorted(paths) == sorted(long_entry(number).path for number in range(NAMES))
    assert len(set(paths)) == NAMES
    assert all(sum(len(entry.path) for entry in page.entries) <= MOST_TEXT for page in found)
    assert all(page.total == NAMES for page in found)


def test_a_text_is_found_in_names_that_are_too_long_to_be_stored(index: HistoryIndex) -> None:
    page = index.browse("one", b"folder", limit=LIMIT, text="0042\x01")
    assert [entry.path[:11] for entry in page.entries] == [b"folder/0042"]
    hidden = page.entries[0].path.removeprefix(b"folder/")
    assert index.browse("one", b"folder", limit=1, without=[hidden]).total == NAMES - 1


def test_pages_of_changes_with_long_names_are_short_and_contain_every_name_once(index: HistoryIndex) -> None:
    found = pages(lambda cursor: index.changes("one", "two", limit=LIMIT, cursor=cursor))
    assert len({change.path for page in found for change in page.changes}) == NAMES
    assert all(sum(2 * len(change.path) for change in page.changes) <= MOST_TEXT for page in found)

    grouped = pages(lambda cursor: index.change_groups("one", "two", folder=b"folder", limit=LIMIT, cursor=cursor))
    names = [group.path for page in grouped for group in page.groups]
    assert names == sorted(long_entry(number).path for number in range(NAMES))
    assert all(sum(len(group.path) for group in page.groups) <= MOST_TEXT for page in grouped)


def test_pages_of_lanes_losses_and_hits_with_long_names_are_short_and_contain_every_name_once(
    index: HistoryIndex,
) -> None:
    for ask in (
        lambda cursor: [(page := index.folder_timeline(b"folder", limit=LIMIT, cursor=cursor)), page.histories],
        lambda cursor: [(page := index.losses(["one", "two"], [], limit=LIMIT, cursor=cursor)), page.lost],
        lambda cursor: [(page := index.search("0", limit=LIMIT, cursor=cursor)), page.hits],
    ):
        found, cursor = [], None
        while True:
            page, histories = ask(cursor)
            found += [history.path for history in histories]
            assert sum(len(history.path) for history in histories) <= MOST_TEXT
            if (cursor := page.next_cursor) is None:
                break
        assert len(set(found)) == len(found) >= NAMES // 2


def test_a_page_of_a_listing_with_long_names_is_short(tmp_path: Path) -> None:
    file = tmp_path / "listing"
    names = NAMES // 4  # each page reads the whole listing
    file.write_bytes(b"".join(record(long_entry(number)) + b"\0" for number in range(names)))
    found = pages(lambda cursor: page_of_listing(file, b"folder", LIMIT, cursor))
    assert len(found) > 2
    assert [entry.path for page in found for entry in page.entries] == sorted(
        long_entry(number).path for number in range(names)
    )
    assert all(sum(len(entry.path) for entry in page.entries) <= MOST_TEXT for page in found)


def test_pages_of_names_with_very_many_versions_are_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    most = 5_000  # the index of three pages of 50,000 takes seconds to make
    monkeypatch.setattr(page_room, "MOST_PRESENCES", most)
    index = HistoryIndex(SqliteStore.create(tmp_path / "history.db"))
    archives = 60
    names = 3 * most // archives // 2
    for archive in range(archives):
        entries = (Entry(b"%05d" % name, 0o100644, 0, 0, "a", "a", 1, archive % 2) for name in range(names))
        index.ingest_listing(str(archive), listing_of(entries))
    every = [str(archive) for archive in range(archives)]
    for ask in (
        lambda: index.folder_timeline(b"", limit=LIMIT).histories,
        lambda: index.losses(every, [], limit=LIMIT).lost,
        lambda: index.search("0", limit=LIMIT).hits,
    ):
        histories = ask()
        assert most / 2 < sum(len(history.presence) for history in histories) < most + archives * 2
    index.close()


ASKED = """
from pathlib import Path
from holdfast.archives.coverage import IndexedArchives
from holdfast.archives.live_browse import page_of_listing
from holdfast.archives import browse_view, changes_view, schemas
from holdfast.history.answers import NO_FACTS
from holdfast.history.index import HistoryIndex
from holdfast.history.sqlite import SqliteStore
from holdfast.repositories.own_places import NOTHING_HIDDEN
index = HistoryIndex(SqliteStore(Path(sys.argv[1])))
def told(page):
    entries = [browse_view.entry(one, NO_FACTS, NOTHING_HIDDEN) for one in page.entries]
    return len(schemas.BrowseAnswer(archive_id=1, path="", path_b64=None, entries=entries, next_cursor=None,
        source="index", excludes=[]).model_dump_json())
index.browse("one", b"none")
measured(lambda: told(index.browse("one", b"folder", limit=5000)))
measured(lambda: told(page_of_listing(Path(sys.argv[2]), b"folder", 5000, None)))
def rows(page):
    return len([changes_view._row(one).model_dump_json() for one in page.changes])
measured(lambda: rows(index.changes("one", "two", limit=5000)))
measured(lambda: len(index.change_groups("one", "two", folder=b"folder", limit=5000).groups))
measured(lambda: len(index.folder_timeline(b"folder", limit=5000).histories))
measured(lambda: len(index.losses(["one"], [], limit=1000).lost))
measured(lambda: len(index.search("0", limit=500).hits))
"""


def test_no_page_of_long_names_takes_much_memory(indexed: Path, tmp_path: Path) -> None:
    file = tmp_path / "listing"
    file.write_bytes(b"".join(record(long_entry(number)) + b"\0" for number in range(NAMES)))
    for growth, result in growths_of(ASKED, str(indexed), str(file)):
        assert isinstance(result, int)
        assert result > 0
        assert growth < 64 * MIB
