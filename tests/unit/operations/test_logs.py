"""Log files: lines are read as they were written, from any offset, after any crash."""

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.operations import logs
from holdfast.operations.logs import ENTRY, LINES_PER_ENTRY, LogPage, LogWriter, index_path, read_page

FEW = [f"line {number}" for number in range(1, 11)]
MANY = [f"line {number}" for number in range(1, 3 * LINES_PER_ENTRY + 18)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "2026-01" / "7.log"


def write(path: Path, lines: list[str], base_line: int = 0) -> None:
    """Write an attempt of a process that does not crash."""
    writer = LogWriter(path, base_line)
    writer.write(lines)
    writer.close()


def read_all(path: Path) -> list[str]:
    page = read_page(path, 0, 10_000)
    assert page is not None
    return [content for _, content in page.lines]


def entries(path: Path) -> list[int]:
    content = index_path(path).read_bytes()
    return [ENTRY.unpack_from(content, place)[0] for place in range(0, len(content), ENTRY.size)]


def true_entries(path: Path) -> list[int]:
    """The expected content of the index, counted naively."""
    ends = [place + 1 for place, byte in enumerate(path.read_bytes()) if byte == 0x0A]
    return ends[LINES_PER_ENTRY - 1 :: LINES_PER_ENTRY]


def test_a_log_that_cannot_be_opened_or_mended_leaves_no_descriptor_open(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(path, MANY)
    index_path(path).unlink()
    before = len(os.listdir("/proc/self/fd"))

    def full(*_arguments: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space"):
        LogWriter(path, 0)
    monkeypatch.undo()
    index_path(path).unlink()
    index_path(path).mkdir()
    with pytest.raises(IsADirectoryError):
        LogWriter(path, 0)

    assert len(os.listdir("/proc/self/fd")) == before


# --- reading ----------------------------------------------------------------------------------------------------------


def test_a_log_that_does_not_exist_has_no_page(path: Path) -> None:
    assert read_page(path, 0, 10) is None
    assert logs.count_lines(path) == 0
    assert logs.tail(path, 5) == []


def test_a_page_numbers_its_lines_from_one(path: Path) -> None:
    write(path, FEW)

    assert read_page(path, 2, 3) == LogPage([(3, "line 3"), (4, "line 4"), (5, "line 5")], position=5, log_lines=10)


def test_a_page_shows_whether_there_are_more_lines(path: Path) -> None:
    write(path, FEW)
    pages = [read_page(path, offset, 4) for offset in (0, 6, 10)]

    assert [page.has_more for page in pages if page] == [True, False, False]


def test_an_offset_beyond_the_end_is_kept(path: Path) -> None:
    """A log may be truncated and continued after a restart: a client that was ahead must not get lines twice."""
    write(path, FEW)

    assert read_page(path, 25, 10) == LogPage([], position=25, log_lines=10)


def test_following_the_position_reads_every_line_once(path: Path) -> None:
    write(path, MANY)
    seen: list[str] = []
    position, has_more = 0, True
    while has_more:
        page = read_page(path, position, 100)
        assert page is not None
        seen += [content for _, content in page.lines]
        position, has_more = page.position, page.has_more

    assert seen == MANY


def test_the_tail_returns_the_last_lines(path: Path) -> None:
    write(path, MANY)

    assert logs.tail(path, 3) == MANY[-3:]
    assert logs.tail(path, 10_000) == MANY


@pytest.mark.parametrize("has_index", [True, False])
def test_a_search_from_any_offset_finds_the_same_line_as_a_full_scan(path: Path, has_index: bool) -> None:
    write(path, MANY)
    if not has_index:
        index_path(path).unlink()

    for offset in (0, 1, 255, 256, 257, 511, 512, len(MANY) - 1, len(MANY), len(MANY) + 5):
        for text in ("LINE 5", "line 25", "line 700", "nowhere"):
            matches = [number for number, line in enumerate(MANY, 1) if number > offset and text.lower() in line]
            found = logs.find(path, text, offset)
            assert found.line == (matches[0] if matches else None), (offset, text)
            assert found.position == (matches[0] if matches else max(offset, len(MANY))), (offset, text)


def test_a_search_of_a_long_log_resumes_where_it_stopped(path: Path) -> None:
    write(path, MANY)

    position, calls = 0, 0
    while (found := logs.find(path, f"line {len(MANY)}", position, most_bytes=100)).line is None:
        assert found.position > position
        position, calls = found.position, calls + 1

    assert (found.line, calls > 10) == (len(MANY), True)


def test_a_search_of_a_log_that_does_not_exist_finds_nothing(path: Path) -> None:
    assert logs.find(path, "line", 3) == logs.Found(None, 3)


def test_a_line_that_is_still_being_written_is_not_shown(path: Path) -> None:
    write(path, FEW)
    with path.open("ab") as file:
        file.write(b"half of a li")

    assert read_all(path) == FEW


def test_reading_needs_no_index(path: Path) -> None:
    write(path, MANY)
    index_path(path).unlink()

    page = read_page(path, 600, 3)
    assert page == LogPage([(number, f"line {number}") for number in (601, 602, 603)], 603, len(MANY))


def test_an_index_with_lines_that_the_log_has_lost_is_not_trusted(path: Path) -> None:
    write(path, MANY)
    with path.open("r+b") as file:
        file.truncate(true_entries(path)[1] + 3)

    assert logs.count_lines(path) == 2 * LINES_PER_ENTRY
    assert read_all(path) == MANY[: 2 * LINES_PER_ENTRY]


def test_invalid_utf_8_does_not_stop_a_reader(path: Path) -> None:
    write(path, FEW)
    with path.open("ab") as file:
        file.write(b"\xff\xfe\x00\n")

    assert read_all(path)[-1] == "\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}\x00"


def test_removing_a_log_removes_its_index_too(path: Path) -> None:
    write(path, MANY)
    logs.remove(path)
    logs.remove(path)

    assert list(path.parent.iterdir()) == []


# --- writing ----------------------------------------------------------------------------------------------------------


def test_only_the_owner_may_read_a_log(path: Path) -> None:
    write(path, FEW)

    assert [file.stat().st_mode & 0o777 for file in (path, index_path(path))] == [0o600, 0o600]


def test_the_index_holds_an_offset_for_every_256_lines(path: Path) -> None:
    write(path, MANY)

    assert entries(path) == true_entries(path) != []


def test_a_line_that_contains_newlines_becomes_several(path: Path) -> None:
    write(path, ["one\ntwo", "three"])
    write(path, ["one\ntwo", "three", "four"])

    assert read_all(path) == ["one", "two", "three", "four"]


def test_a_lone_surrogate_does_not_break_a_log(path: Path) -> None:
    write(path, ["a\udc80b"])

    assert read_all(path) == ["a?b"]


def test_an_attempt_replayed_after_a_restart_adds_only_new_lines(path: Path) -> None:
    write(path, MANY[:300])
    write(path, MANY)

    assert read_all(path) == MANY
    assert entries(path) == true_entries(path)


def test_the_second_attempt_follows_the_lines_of_the_first(path: Path) -> None:
    write(path, FEW)
    write(path, ["again"], base_line=len(FEW))
    write(path, ["again", "done"], base_line=len(FEW))

    assert read_all(path) == [*FEW, "again", "done"]


def test_a_line_torn_by_a_crash_is_written_again(path: Path) -> None:
    write(path, FEW[:5])
    with path.open("ab") as file:
        file.write(b"line")
    write(path, FEW)

    assert read_all(path) == FEW


def test_a_torn_line_larger_than_a_block_is_removed_completely(path: Path) -> None:
    write(path, FEW[:5])
    with path.open("ab") as file:
        file.write(b"x" * 200_000)
    write(path, FEW)

    assert path.read_text() == "".join(f"{line}\n" for line in FEW)


@pytest.mark.parametrize("left", [0, 3, ENTRY.size, ENTRY.size + 5])
def test_a_torn_index_is_repaired(path: Path, left: int) -> None:
    write(path, MANY[:600])
    with index_path(path).open("r+b") as file:
        file.truncate(left)
    write(path, MANY)

    assert read_all(path) == MANY
    assert entries(path) == true_entries(path)


def test_an_index_ahead_of_its_log_is_repaired(path: Path) -> None:
    write(path, MANY)
    with path.open("r+b") as file:
        file.truncate(true_entries(path)[0] - 2)
    write(path, MANY)

    assert read_all(path) == MANY
    assert entries(path) == true_entries(path)


def test_cutting_removes_only_the_lines_of_the_attempt(path: Path) -> None:
    write(path, MANY[:300])
    write(path, MANY[:500], base_line=300)
    LogWriter(path, 300).cut()

    assert read_all(path) == MANY[:300]
    assert entries(path) == true_entries(path)


def test_cutting_an_attempt_that_wrote_nothing_changes_nothing(path: Path) -> None:
    write(path, MANY[:300])
    LogWriter(path, 300).cut()

    assert read_all(path) == MANY[:300]


# --- any log ----------------------------------------------------------------------------------------------------------

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=12)


@settings(max_examples=80)
@given(
    lines=st.builds(
        lambda some, times: (some * times)[:700], st.lists(TEXTS, min_size=1, max_size=20), st.integers(1, 60)
    ),
    pages=st.lists(st.tuples(st.integers(0, 750), st.integers(0, 600)), min_size=1, max_size=6),
    torn=st.binary(max_size=5).filter(lambda rest: b"\n" not in rest),
)
def test_any_page_equals_a_slice_of_the_whole_log(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], pages: list[tuple[int, int]], torn: bytes
) -> None:
    path = tmp_path_factory.mktemp("log") / "1.log"
    write(path, lines)
    with path.open("ab") as file:
        file.write(torn)

    for offset, limit in pages:
        wanted = [(number, line) for number, line in enumerate(lines, 1) if offset < number <= offset + limit]
        assert read_page(path, offset, limit) == LogPage(wanted, offset + len(wanted), len(lines))


@settings(max_examples=80)
@given(
    lines=st.lists(TEXTS, max_size=8),
    times=st.integers(1, 90),
    deaths=st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1)), max_size=4),
)
def test_replaying_an_attempt_repairs_whatever_a_crash_leaves(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], times: int, deaths: list[tuple[float, float, float]]
) -> None:
    """A writer dies after some of its lines, and a part of the end of either file is lost."""
    lines = (lines * times)[:700]
    path = tmp_path_factory.mktemp("log") / "1.log"
    for written, kept_of_log, kept_of_index in deaths:
        write(path, lines[: int(len(lines) * written)])
        for file, kept in ((path, kept_of_log), (index_path(path), kept_of_index)):
            with file.open("r+b") as opened:
                opened.truncate(int(file.stat().st_size * kept))
    write(path, lines)

    assert path.read_bytes() == "".join(f"{line}\n" for line in lines).encode()
    assert entries(path) == true_entries(path)
