"""The exact listing of an archive."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backup_engine.listing import ListedFile, exact_bytes, read_listing
from backup_engine.results import GarbledOutput

paths = st.binary(min_size=1, max_size=60).filter(lambda path: b"\0" not in path)
items = st.builds(
    ListedFile,
    path=paths,
    type=st.sampled_from("-dlpcb"),
    size=st.integers(0, 2**63),
    is_hard_link=st.booleans(),
)


def record(item: ListedFile) -> bytes:
    """As the engine writes it."""
    literal = ascii(item.path.decode("utf-8", "surrogateescape")).encode()
    mode = ("h" if item.is_hard_link else item.type) + "rw-r--r--"
    return b"\t".join((literal, (item.type + mode).encode(), str(item.size).encode())) + b"\0"


@given(st.lists(items, max_size=8), st.integers(1, 50))
def test_every_item_is_read_regardless_of_its_name_and_the_block_size(found: list[ListedFile], size: int) -> None:
    listing = b"".join(map(record, found))
    blocks = [listing[start : start + size] for start in range(0, len(listing), size)]

    assert list(read_listing(blocks)) == found


@given(st.lists(items, min_size=1, max_size=4), st.data())
def test_a_truncated_listing_is_refused(found: list[ListedFile], data: st.DataObject) -> None:
    listing = b"".join(map(record, found))
    ends = {index + 1 for index, byte in enumerate(listing) if byte == 0}
    cut = data.draw(st.integers(1, len(listing) - 1).filter(lambda position: position not in ends))

    with pytest.raises(GarbledOutput):
        list(read_listing([listing[:cut]]))


@pytest.mark.parametrize(
    "rubbish",
    [
        b"\0",
        b"'a'\t-x\0",
        b"a\t--rw\t1\0",
        b"'a'\t--rw\tmany\0",
        b"'a\\q'\t--rw\t1\0",
        b"''\t--rw\t1\0",
        b"'\xe9'\t-\t1\0",
    ],
)
def test_an_invalid_record_is_refused(rubbish: bytes) -> None:
    with pytest.raises(GarbledOutput):
        list(read_listing([rubbish]))


def test_an_endless_listing_is_refused_before_it_fills_the_memory() -> None:
    with pytest.raises(GarbledOutput):
        list(read_listing(b"x" * 65536 for _ in range(100_000)))


@given(paths)
def test_a_literal_decodes_to_the_bytes_of_the_name(path: bytes) -> None:
    assert exact_bytes(ascii(path.decode("utf-8", "surrogateescape")).encode()) == path


@pytest.mark.parametrize(("kind", "special"), [("-", False), ("d", False), ("l", False), ("p", True), ("b", True)])
def test_only_devices_and_fifos_are_special(kind: str, special: bool) -> None:
    assert ListedFile(b"a", kind, 0).is_special is special
