"""The listing of engine 2: names, links and content are exact, and an incomplete listing is refused."""

import base64
import io
import json
import stat
from itertools import chain
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backup_engine.listing import ListedFile, read_listing
from holdfast.history.entry import Entry
from holdfast.history.errors import ListingFailed
from holdfast.history.json_listing import JsonListing, listing_of
from holdfast.history.listing import Listing

FINGERPRINT = "d3b07384d113edec-" + "ab" * 32
NAMES = st.binary(min_size=1, max_size=60).filter(lambda name: b"\0" not in name)


def exactly(key: str, value: bytes) -> dict[str, str]:
    """As the engine writes a name: readable, and also in base64 if it is not valid UTF-8."""
    shown = value.decode("utf-8", "surrogateescape")
    try:
        shown.encode()
    except UnicodeEncodeError:
        return {key: shown.encode("utf-8", "replace").decode(), f"{key}_b64": base64.b64encode(value).decode()}
    return {key: shown}


def line(path: bytes = b"d/file", link: bytes = b"", **more: Any) -> bytes:
    record = {
        "flags": 0,
        "gid": 5,
        "group": "staff",
        "hlid": "",
        "inode": 7,
        "mode": "-rw-r--r--",
        "mtime": "2026-11-15T17:26:19.767281+00:00",
        "size": 3,
        "type": "-",
        "uid": 0,
        "user": "root",
        "fingerprint": FINGERPRINT,
        **exactly("path", path),
        **exactly("target", link),
    }
    return json.dumps({**record, **more}).encode() + b"\n"


def read(text: bytes) -> list[Entry]:
    listing = listing_of(io.BytesIO(text))
    return [listing.parse(record) for record in chain.from_iterable(listing.batches())]


def test_a_line_of_the_engine_is_parsed() -> None:
    (entry,) = read(line())

    assert (entry.path, entry.mode, entry.size) == (b"d/file", stat.S_IFREG | 0o644, 3)
    assert (entry.uid, entry.gid, entry.user, entry.group) == (0, 5, "root", "staff")
    assert entry.mtime == 1_794_763_579_767_281
    assert entry.content != 0
    assert entry.flags == 0, "nothing is left open"


@given(st.lists(NAMES, min_size=1, max_size=5), st.integers(1, 50))
def test_every_byte_of_a_name_and_of_a_link_is_kept(names: list[bytes], size: int) -> None:
    text = b"".join(line(name, name, type="l", mode="lrwxrwxrwx") for name in names)
    blocks = [text[start : start + size] for start in range(0, len(text), size)]

    assert [(entry.path, entry.link, entry.size) for entry in read(text)] == [(n, n, len(n)) for n in names]
    assert list(read_listing(blocks)) == [ListedFile(name, "l", 3) for name in names]


def test_files_with_different_fingerprints_have_different_content() -> None:
    other = FINGERPRINT[:-2] + "00"
    same, again, changed = read(line() + line(b"copy") + line(fingerprint=other))

    assert same.content == again.content
    assert same.content != changed.content


def test_empty_files_and_folders_have_no_content() -> None:
    empty, folder = read(line(size=0) + line(type="d", mode="drwxr-xr-x", size=0, fingerprint=""))

    assert (empty.content, folder.content) == (0, 0)


def test_an_owner_without_a_name_has_only_its_number() -> None:
    (entry,) = read(line(uid=1234, user="1234", gid=None, group="None"))

    assert (entry.uid, entry.user, entry.gid, entry.group) == (1234, None, 0, None)


def test_the_format_of_a_listing_is_recognised_by_its_first_byte() -> None:
    assert isinstance(listing_of(io.BytesIO(line())), JsonListing)
    assert type(listing_of(io.BytesIO(b"'a'\t...\0"))) is Listing
    assert read(b"") == []


@pytest.mark.parametrize("cut", [1, 2, 50])
def test_a_truncated_listing_is_refused(cut: int) -> None:
    with pytest.raises(ListingFailed):
        read(line()[:-cut])


@pytest.mark.parametrize(
    "rubbish",
    [
        b"{}\n",
        b"{\n",
        line(path=b""),
        line(size="3"),
        line(mode="rw"),
        line(mtime="yesterday"),
        line(fingerprint="xyz"),
        line(path_b64="%"),
        line(path_b64=base64.b64encode(b"a\0b").decode()),
    ],
)
def test_a_line_that_is_not_a_record_is_refused(rubbish: bytes) -> None:
    with pytest.raises(ListingFailed):
        read(rubbish)
