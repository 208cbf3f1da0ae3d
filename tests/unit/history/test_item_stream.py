"""The reader of item streams: whatever it reuses from an indexed archive, the result equals reading everything."""

import os
import random
import struct
from collections.abc import Generator, Sequence
from hashlib import sha256
from itertools import pairwise

import msgpack  # type: ignore[import-untyped]
import numpy as np
import pytest

from holdfast.history.chunks.item_stream import Scan, StateMismatch, scan, shared_runs
from holdfast.history.chunks.state import ChunkTable, SeriesState
from holdfast.history.errors import GarbledItems, IndexDamaged

STREAMS = int(os.environ.get("HOLDFAST_FUZZ_STREAMS", "1000"))  # 10000 for the full run
STREAMS_PER_SEED = 50


class Chunks:
    """A content-addressed store of chunks."""

    def __init__(self) -> None:
        self.stored: dict[bytes, bytes] = {}

    def put(self, pieces: Sequence[bytes]) -> list[bytes]:
        ids = [sha256(piece).digest() for piece in pieces]
        self.stored.update(zip(ids, pieces, strict=True))
        return ids

    def fetch(self, ids: Sequence[bytes]) -> Generator[bytes]:
        yield from (self.stored[one] for one in ids)


class Numbering:
    """Stands in for versions: equal items have equal numbers."""

    def __init__(self) -> None:
        self.numbers: dict[bytes, int] = {}
        self.items: list[bytes] = []

    def of(self, items: Sequence[bytes]) -> list[int]:
        for item in items:
            if item not in self.numbers:
                self.numbers[item] = len(self.items) + 1
                self.items.append(item)
        return [self.numbers[item] for item in items]


def read(chunks: Chunks, ids: list[bytes], known: SeriesState, numbering: Numbering) -> tuple[Scan, SeriesState]:
    emitted: list[int] = []
    result = scan(ids, known.table, chunks.fetch, lambda items: emitted.extend(numbering.of(items)))
    versions = result.assemble(known.versions, np.array(emitted, np.uint32))
    return result, SeriesState(result.table, versions, b"12345678")


NOTHING = SeriesState(ChunkTable.empty(), np.zeros(0, np.uint32), b"12345678")


def an_item(rng: random.Random, *, deceptive: bool = True) -> bytes:
    """An item, mostly small; some contain bytes that look like items themselves, some are larger than chunks."""
    roll = rng.random()
    if roll < 0.02:
        filler = rng.randbytes(rng.randrange(1000, 4000))
    elif roll < 0.1 and deceptive:
        filler = msgpack.packb({"path": "inner", "n": rng.randrange(3)}) * rng.randrange(1, 6)
    else:
        filler = rng.randbytes(rng.randrange(0, 40))
    packed: bytes = msgpack.packb({"path": f"f{rng.randrange(10**6)}", "x": filler}, use_bin_type=False)
    return packed


def next_generation(rng: random.Random, items: list[bytes]) -> list[bytes]:
    result = list(items)
    for _ in range(rng.randrange(0, 4)):
        at = rng.randrange(len(result) + 1)
        length = rng.randrange(0, 12)
        roll = rng.random()
        if roll < 0.25:
            result[at:at] = [an_item(rng) for _ in range(length)]
        elif roll < 0.5:
            del result[at : at + length]
        elif roll < 0.65:
            block = result[at : at + length]
            del result[at : at + length]
            to = rng.randrange(len(result) + 1)
            result[to:to] = block
        elif roll < 0.8:
            result[at:at] = result[at : at + length] * rng.randrange(1, 4)  # repeats, and with them repeated chunks
        elif roll < 0.85:
            rng.shuffle(result)
        elif result:
            place = min(at, len(result) - 1)
            result[place] = an_item(rng)
    return result


def cut_by_content(rng: random.Random, stream: bytes, window: int, mean: int, least: int) -> list[bytes]:
    pieces, start, at = [], 0, least
    while at < len(stream):
        if at - start >= least and sum(stream[at - window : at]) % mean == 0:
            pieces.append(stream[start:at])
            start = at
            at += least
        else:
            at += 1
    pieces.append(stream[start:])
    return [piece for piece in pieces if piece]


def cut_anywhere(rng: random.Random, stream: bytes) -> list[bytes]:
    places = sorted({rng.randrange(len(stream) + 1) for _ in range(len(stream) // 150 + 1)} | {0, len(stream)})
    return [stream[start:end] for start, end in pairwise(places)]


@pytest.mark.parametrize("seed", range(max(1, STREAMS // STREAMS_PER_SEED)))
def test_reading_only_the_differences_equals_reading_everything(seed: int) -> None:
    rng = random.Random(seed)
    chunks, numbering = Chunks(), Numbering()
    window, mean, least = rng.choice([(4, 40, 20), (4, 120, 60), (6, 25, 8), (4, 400, 300)])
    items = [an_item(rng) for _ in range(rng.randrange(0, 120))]
    state = NOTHING
    for _ in range(STREAMS_PER_SEED):
        stream = b"".join(items)
        pieces = cut_anywhere(rng, stream) if rng.random() < 0.1 else cut_by_content(rng, stream, window, mean, least)
        ids = chunks.put(pieces)
        result, state = read(chunks, ids, state, numbering)
        expected, fresh = read(chunks, ids, NOTHING, numbering)
        assert [numbering.items[number - 1] for number in state.versions.tolist()] == items
        assert_same(state, fresh)
        state = SeriesState.load(state.dump())
        assert_same(state, fresh)
        assert result.fetched <= expected.fetched == len(ids)
        items = next_generation(rng, items)


def assert_same(one: SeriesState, other: SeriesState) -> None:
    assert one.table.ids == other.table.ids
    assert one.versions.tolist() == other.versions.tolist()
    assert one.table.count.tolist() == other.table.count.tolist()
    some = one.table.count > 0
    assert one.table.first[some].tolist() == other.table.first[some].tolist()
    assert one.table.last[some].tolist() == other.table.last[some].tolist()


@pytest.mark.parametrize("seed", range(60))
def test_a_state_that_does_not_match_the_stream_is_noticed_or_harmless(seed: int) -> None:
    """Wrong offsets end in StateMismatch or GarbledItems, or in the right result."""
    rng = random.Random(seed)
    chunks, numbering = Chunks(), Numbering()
    items = [an_item(rng, deceptive=False) for _ in range(100)]
    ids = chunks.put(cut_by_content(rng, b"".join(items), 4, 60, 40))
    _, state = read(chunks, ids, NOTHING, numbering)
    first, last = state.table.first.copy(), state.table.last.copy()
    place = rng.randrange(len(ids))
    (first if rng.random() < 0.5 else last)[place] += rng.choice([1, 2, 7, 1000])
    wrong = SeriesState(ChunkTable(ids, first, last, state.table.count), state.versions, state.excludes)
    changed = [*items]
    for _ in range(3):
        changed[rng.randrange(len(changed))] = an_item(rng, deceptive=False)
    new_ids = chunks.put(cut_by_content(rng, b"".join(changed), 4, 60, 40))
    try:
        _, found = read(chunks, new_ids, wrong, numbering)
    except (StateMismatch, GarbledItems):
        return
    assert [numbering.items[number - 1] for number in found.versions.tolist()] == changed


@pytest.mark.parametrize("seed", range(200))
def test_garbled_chunks_are_refused_or_read_byte_for_byte(seed: int) -> None:
    rng = random.Random(seed)
    chunks, numbering = Chunks(), Numbering()
    stream = bytearray(b"".join(an_item(rng) for _ in range(30)))
    for _ in range(rng.randrange(1, 5)):
        stream[rng.randrange(len(stream))] = rng.randrange(256)
    if rng.random() < 0.3:
        del stream[rng.randrange(len(stream)) :]
    ids = chunks.put(cut_anywhere(rng, bytes(stream)))
    try:
        _, state = read(chunks, ids, NOTHING, numbering)
    except GarbledItems:
        return
    assert b"".join(numbering.items[number - 1] for number in state.versions.tolist()) == bytes(stream)


def test_a_stream_that_ends_inside_an_item_is_refused() -> None:
    chunks = Chunks()
    ids = chunks.put([msgpack.packb({"path": "a"}), msgpack.packb({"path": "b"})[:-1]])
    with pytest.raises(GarbledItems, match="in the middle"):
        read(chunks, ids, NOTHING, Numbering())


def test_an_item_that_claims_to_be_huge_is_refused() -> None:
    chunks = Chunks()
    ids = chunks.put([b"\xc6" + struct.pack(">I", 0xFFFFFFFF) + b"x" * 1000])
    with pytest.raises(GarbledItems):
        read(chunks, ids, NOTHING, Numbering())


def test_deep_nesting_is_refused_without_a_crash() -> None:
    chunks = Chunks()
    ids = chunks.put([b"\x91" * 5_000_000])
    with pytest.raises(GarbledItems):
        read(chunks, ids, NOTHING, Numbering())


def test_an_unchanged_archive_is_not_read_at_all() -> None:
    rng = random.Random(1)
    chunks, numbering = Chunks(), Numbering()
    ids = chunks.put(cut_by_content(rng, b"".join(an_item(rng) for _ in range(200)), 4, 60, 40))
    _, state = read(chunks, ids, NOTHING, numbering)
    result, again = read(chunks, ids, state, numbering)
    assert result.fetched == 0
    assert_same(again, state)


def test_a_change_in_one_place_reads_only_the_chunks_around_it() -> None:
    rng = random.Random(2)
    chunks, numbering = Chunks(), Numbering()
    items = [an_item(rng) for _ in range(2000)]
    ids = chunks.put(cut_by_content(rng, b"".join(items), 4, 60, 40))
    _, state = read(chunks, ids, NOTHING, numbering)
    items[1000:1003] = [an_item(rng)]
    new_ids = chunks.put(cut_by_content(rng, b"".join(items), 4, 60, 40))
    result, new = read(chunks, new_ids, state, numbering)
    assert result.fetched <= len(set(new_ids) - set(ids)) + 2
    assert len(new_ids) > 100 > 20 > result.fetched
    assert [numbering.items[number - 1] for number in new.versions.tolist()] == items


def test_a_repeated_chunk_never_starts_a_shared_run() -> None:
    table = ChunkTable(
        [b"a" * 32, b"b" * 32, b"a" * 32], *(np.array(row, np.uint32) for row in ([0, 0, 0], [5, 5, 5], [2, 2, 2]))
    )
    assert shared_runs([b"a" * 32], table) == []
    assert [run.new for run in shared_runs([b"b" * 32, b"a" * 32], table)] == [0]
    assert shared_runs([b"b" * 32, b"x" * 32, b"b" * 32], table) == []


@pytest.mark.parametrize("damage", [b"", b"HFS1", b"x" * 200])
def test_a_damaged_state_is_refused(damage: bytes) -> None:
    with pytest.raises(IndexDamaged):
        SeriesState.load(damage)


def test_a_truncated_or_changed_state_is_refused() -> None:
    rng = random.Random(3)
    chunks = Chunks()
    ids = chunks.put(cut_by_content(rng, b"".join(an_item(rng) for _ in range(50)), 4, 60, 40))
    data = read(chunks, ids, NOTHING, Numbering())[1].dump()
    for cut in range(0, len(data) - 1, 7):
        with pytest.raises(IndexDamaged):
            SeriesState.load(data[:cut])
    for place in range(0, len(data), 5):
        changed = bytearray(data)
        changed[place] ^= 0x41
        if 12 <= place < 20:
            continue  # the fingerprint of the patterns: any value is valid
        with pytest.raises(IndexDamaged):
            SeriesState.load(bytes(changed))
