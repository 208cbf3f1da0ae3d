"""A folder with very many names is listed live without keeping all of them in memory."""

from pathlib import Path

from holdfast.archives.live_browse import page_of_listing
from holdfast.history.entry import Entry
from tests.support.peak import MIB, growths_of
from tests.unit.history.sources import record

NAMES = 300_000

BROWSED = """
from pathlib import Path
from holdfast.archives.live_browse import page_of_listing
page_of_listing(Path(sys.argv[2]), b"folder", 100, None)
measured(lambda: len(page_of_listing(Path(sys.argv[1]), b"folder", 100, None).entries))
"""


def listing(file: Path, names: int) -> Path:
    one = record(Entry(b"folder/NAME", 0o100644, 0, 0, "root", "root", 1, 1))
    with file.open("wb") as stream:
        stream.writelines(one.replace(b"NAME", b"%07d" % (number * 7919 % names)) + b"\0" for number in range(names))
    return file


def test_a_folder_with_very_many_names_takes_little_memory(tmp_path: Path) -> None:
    small, large = listing(tmp_path / "small", 10), listing(tmp_path / "large", NAMES)
    ((growth, entries),) = growths_of(BROWSED, str(large), str(small))
    assert entries == 100
    assert growth < 64 * MIB


def test_the_pages_of_a_crowded_folder_contain_every_name_once(tmp_path: Path) -> None:
    file = listing(tmp_path / "listing", 5_003)
    seen: list[bytes] = []
    cursor = None
    while True:
        page = page_of_listing(file, b"folder", 700, cursor)
        seen += [entry.path for entry in page.entries]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == [b"folder/%07d" % number for number in range(5_003)]
