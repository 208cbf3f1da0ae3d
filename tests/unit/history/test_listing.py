"""The engine's listing: as exact as its format allows, and refused if incomplete."""

import io
import random
import stat
import time
from datetime import UTC, datetime
from itertools import chain

import pytest

from holdfast.history.entry import CONTENT_UNKNOWN, LINK_LOSSY, listed, microseconds, mode_of
from holdfast.history.errors import ListingFailed
from holdfast.history.listing import FORMAT, Listing, parse_record
from tests.unit.history.model import ODD_NAMES, a_file, a_link, random_archive
from tests.unit.history.sources import listing_of, record


def read(text: bytes, code: int = 0) -> list[bytes]:
    return list(chain.from_iterable(Listing(io.BytesIO(text), lambda: code).batches()))


@pytest.mark.parametrize("seed", range(5))
def test_parsed_records_equal_the_entries_they_were_built_from(seed: int) -> None:
    for entry in random_archive(random.Random(seed), 300).values():
        assert parse_record(record(entry)) == listed(entry)


@pytest.mark.parametrize("name", [*ODD_NAMES, bytes(range(1, 256)), b"x" * 4096])
def test_every_byte_of_a_name_is_kept(name: bytes) -> None:
    assert parse_record(record(a_file(name))).path == name


def test_a_recorded_line_of_the_engine_is_parsed() -> None:
    line = b"'src/caf\\udce9.txt'\t--rw-r--r--\t0\t12345\t'root'\t12345\t3\t2026-11-15T10:49:57.330766\t''"
    entry = parse_record(line)
    assert entry.path == b"src/caf\xe9.txt"
    assert (entry.mode, entry.uid, entry.gid) == (stat.S_IFREG | 0o644, 0, 12345)
    assert (entry.user, entry.group, entry.size) == ("root", None, 3)
    assert entry.mtime == int(datetime(2026, 11, 15, 10, 49, 57, 330766, tzinfo=UTC).timestamp() * 1e6)
    assert entry.flags == CONTENT_UNKNOWN


def test_hard_links_and_symbolic_links_are_distinguished() -> None:
    hard = parse_record(b"'b'\t-hrw-r--r--\t0\t0\t'root'\t'root'\t0\t2026-11-15T10:49:57.000000\t'a'")
    soft = parse_record(b"'l'\tllrwxrwxrwx\t0\t0\t'root'\t'root'\t6\t2026-11-15T10:49:57.000000\t'caf? x'")
    assert (hard.is_hard_link, hard.link, hard.flags) == (True, b"a", 0)
    assert (soft.is_hard_link, soft.type, soft.flags, soft.is_lossy) == (False, "l", LINK_LOSSY, True)


def test_records_are_found_regardless_of_block_boundaries() -> None:
    entries = [a_file(b"dir/%d" % number) for number in range(1000)]
    text = b"".join(record(entry) + b"\0" for entry in entries)

    class Dribble(io.RawIOBase):
        def __init__(self) -> None:
            self.rest = io.BytesIO(text)

        def read(self, size: int = -1) -> bytes:
            return self.rest.read(random.Random(self.rest.tell()).randrange(1, 200))

    found = [parse_record(one) for one in chain.from_iterable(Listing(Dribble(), lambda: 0).batches())]  # type: ignore[arg-type]
    assert found == [listed(entry) for entry in entries]


def test_an_empty_listing_is_valid() -> None:
    assert read(b"") == []


@pytest.mark.parametrize("cut", [1, 5, 40])
def test_output_that_ends_inside_a_record_is_refused(cut: int) -> None:
    text = b"".join(record(a_file(b"f%d" % number)) + b"\0" for number in range(3))
    with pytest.raises(ListingFailed, match="middle of a record"):
        read(text[:-cut])


@pytest.mark.parametrize("code", [1, 2, 82, -9])
def test_output_of_a_failed_engine_run_is_refused_even_if_it_looks_complete(code: int) -> None:
    with pytest.raises(ListingFailed, match="code"):
        read(record(a_file(b"f")) + b"\0", code)


def test_output_without_record_ends_is_refused_before_it_fills_the_memory() -> None:
    with pytest.raises(ListingFailed, match="without an end"):
        read(b"x" * (5 * 1024 * 1024))


GOOD = b"'p'\t--rw-r--r--\t0\t0\t'u'\t'g'\t1\t2026-11-15T10:49:57.000000\t''"


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        GOOD.replace(b"\t0\t0", b"\t0"),
        GOOD.replace(b"'p'", b"p"),
        GOOD.replace(b"'p'", b"''"),
        GOOD.replace(b"'p'", b"'p"),
        GOOD.replace(b"'p'", b"'\\x00'"),
        GOOD.replace(b"'p'", b"'\\ud800'"),
        GOOD.replace(b"'p'", b"'\xff'"),
        GOOD.replace(b"'p'", b"'\\'"),
        GOOD.replace(b"--rw", b"-?rw"[:3]),
        GOOD.replace(b"--rw-r--r--", b"--rq-r--r--"),
        GOOD.replace(b"--rw-r--r--", b"--rw-r--rs-"),
        GOOD.replace(b"\t1\t", b"\tone\t"),
        GOOD.replace(b"2026-11-15T", b"yesterday "),
        GOOD.replace(b"'u'", b"u"),
    ],
)
def test_an_invalid_record_is_refused(bad: bytes) -> None:
    assert parse_record(GOOD).path == b"p"
    with pytest.raises(ListingFailed):
        parse_record(bad)


@pytest.mark.parametrize("seed", range(3))
def test_garbled_listings_raise_nothing_but_listing_errors(seed: int) -> None:
    rng = random.Random(seed)
    text = b"".join(record(entry) + b"\0" for entry in random_archive(rng, 40).values())
    for _ in range(300):
        garbled = bytearray(text)
        for _ in range(3):
            garbled[rng.randrange(len(garbled))] = rng.randrange(256)
        try:
            for one in read(bytes(garbled)):
                parse_record(one)
        except ListingFailed:
            continue


def test_every_mode_is_parsed() -> None:
    kinds = (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK, stat.S_IFIFO, stat.S_IFSOCK, stat.S_IFCHR, stat.S_IFBLK)
    for kind in kinds:
        for bits in range(0o10000):
            text = stat.filemode(kind | bits)
            assert mode_of(text[0], text) == kind | bits
            assert mode_of(text[0], "h" + text[1:]) == kind | bits


def test_stored_times_are_shown_as_the_engine_shows_them() -> None:
    rng = random.Random(1)
    for _ in range(20_000):
        nanoseconds = rng.randrange(2**31 * 10**9)
        shown = datetime.fromtimestamp(min(nanoseconds, 2147310847 * 10**9) / 1e9, UTC)
        whole = int(shown.replace(microsecond=0).timestamp())
        assert microseconds(nanoseconds) == whole * 1_000_000 + shown.microsecond
    assert microseconds(-5) == 0
    assert microseconds(10**30) == 2147310847 * 10**6


def test_the_format_has_nine_fields_ends_with_nul_and_never_uses_the_plain_path() -> None:
    assert FORMAT.count("{TAB}") == 8
    assert FORMAT.endswith("{NUL}")
    assert "{path}" not in FORMAT


def test_odd_bytes_of_a_link_are_listed_as_question_marks() -> None:
    shown = listed(a_link(b"l", b"\xe9t\xc3\xa9\xff"))
    assert shown.link == "?té?".encode()
    assert shown.is_lossy
    assert listed(shown) == shown


def test_the_time_to_read_a_listing_is_proportional_to_its_length() -> None:
    """A hundred times the records take about a hundred times as long: no step is quadratic."""
    small = b"".join(record(a_file(b"f%d" % number)) + b"\0" for number in range(2_000))
    before = time.process_time()
    read(small * 5)
    once = max(time.process_time() - before, 0.001)
    before = time.process_time()
    read(small * 500)
    assert time.process_time() - before < once * 100 * 20


def test_a_listing_reports_its_route() -> None:
    assert listing_of([]).route == "listing"
