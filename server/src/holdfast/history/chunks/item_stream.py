"""Read an archive's item stream, fetching only the metadata chunks that it does not share with a known archive.

The stream is a sequence of msgpack maps, cut into chunks at any place. For each chunk of the known archive, the offsets
of its first and last item are stored. If a run of chunks appears unchanged, the items that start in it are the same,
except the last one, which may continue in a different chunk. So between two such runs, the stream is parsed from the
last item of the first run to the first item of the second, and must end there to the byte: from then on, the same bytes
from the same boundary give the same items. If it does not, the stored state is wrong and everything is read.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from itertools import groupby, zip_longest

import msgpack  # type: ignore[import-untyped]
import numpy as np

from backup_engine.frozen import frozen
from holdfast.history.chunks.state import ChunkTable, Numbers
from holdfast.history.errors import GarbledItems, ItemTooLarge

ITEM_BYTES_MOST = 8 * 1024 * 1024  # a file of 370 GB; larger ones are read by the engine's listing
ITEM_BYTES_LEAST = 32  # the names of the fields that every item has take more than that
_FEW_ITEMS = 1000
_EMIT_BYTES = 4 * 1024 * 1024
_TOO_LARGE = "an item is larger than 8 MiB"
_MAP_STARTS = frozenset([*range(0x80, 0x90), 0xDE, 0xDF])

Fetch = Callable[[Sequence[bytes]], Generator[bytes]]
Emit = Callable[[list[bytes]], None]


class StateMismatch(Exception):
    """The stored state of the known archive does not fit this stream."""


@frozen
class Run:
    """Chunks of the new archive that occur in the known one in the same order."""

    new: int  # index of the first chunk whose items are reused
    known: int
    length: int
    whole: bool  # both streams end with this run, so its last item is the same too


@frozen
class Scan:
    """The result: pieces in stream order, each either items reused from the known archive or emitted items."""

    pieces: list[tuple[int, int] | int]  # (first, end) of items in the known archive, or the number of emitted items
    table: ChunkTable
    fetched: int

    def assemble(self, known: Numbers, emitted: Numbers) -> Numbers:
        """Given one number per item of the known archive and per emitted item, return one for each item of this
        archive.
        """
        parts: list[Numbers] = [np.zeros(0, np.uint32)]
        position = 0
        for piece in self.pieces:
            if isinstance(piece, tuple):
                parts.append(known[piece[0] : piece[1]])
            else:
                parts.append(emitted[position : position + piece])
                position += piece
        return np.concatenate(parts)


def scan(ids: Sequence[bytes], known: ChunkTable, fetch: Fetch, emit: Emit) -> Scan:
    """Read the stream of these chunks.

    Raise StateMismatch if `known` does not fit, GarbledItems if the stream does not consist of items.
    """
    return _Scanner(ids, known, fetch, emit).scan()


def shared_runs(ids: Sequence[bytes], known: ChunkTable) -> list[Run]:
    """Return the runs whose items can be reused.

    A chunk that occurs twice on either side does not show a position, and one in which no item starts has no boundary,
    so runs begin and end at other chunks.
    """
    once = {one for one, count in Counter(known.ids).items() if count == 1}
    once &= {one for one, count in Counter(ids).items() if count == 1}
    place = {one: number for number, one in enumerate(known.ids) if one in once}
    runs = []
    at = 0
    while at < len(ids):
        start = place.get(ids[at])
        if start is None:
            at += 1
            continue
        length = 1
        while at + length < len(ids) and place.get(ids[at + length]) == start + length:
            length += 1
        run = _trimmed(ids, known, at, start, length)
        if run is not None:
            runs.append(run)
        at += length
    return runs


def _trimmed(ids: Sequence[bytes], known: ChunkTable, new: int, start: int, length: int) -> Run | None:
    whole = new + length == len(ids) and start + length == len(known.ids)
    with_items = np.flatnonzero(known.count[start : start + length])
    if not len(with_items):
        return None
    first = int(with_items[0])
    end = length if whole else int(with_items[-1]) + 1
    items = int(known.count[start + first : start + end].sum())
    if not whole and items < 2:
        return None  # its only item has to be parsed anyway
    return Run(new + first, start + first, end - first, whole)


@frozen
class _Gap:
    """Bytes that must be parsed: from an item boundary in one chunk to a boundary in a later one, or to the end."""

    chunk: int
    offset: int
    end_chunk: int
    end_offset: int

    @property
    def chunks(self) -> range:
        if (self.chunk, self.offset) == (self.end_chunk, self.end_offset):
            return range(0)
        return range(self.chunk, self.end_chunk + 1 if self.end_offset else self.end_chunk)


class _Scanner:
    def __init__(self, ids: Sequence[bytes], known: ChunkTable, fetch: Fetch, emit: Emit) -> None:
        self._ids = ids
        self._known = known
        self._fetch = fetch
        self._emit = emit
        self._item_start = np.concatenate([[0], np.cumsum(known.count, dtype=np.int64)])
        self._first = np.zeros(len(ids), np.uint32)
        self._last = np.zeros(len(ids), np.uint32)
        self._count = np.zeros(len(ids), np.uint32)
        self._pieces: list[tuple[int, int] | int] = []
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._held = (-1, b"")  # number and content of the current chunk

    def scan(self) -> Scan:
        runs = shared_runs(self._ids, self._known)
        gaps = list(self._gaps(runs))
        # A run of one chunk ends the gap before it and begins the gap after it: like all others, it is fetched once.
        wanted = [number for number, _ in groupby(number for gap in gaps for number in gap.chunks)]
        with closing(self._fetch([self._ids[number] for number in wanted])) as data:
            for gap, run in zip_longest(gaps, runs):
                self._parse(gap, data)
                if run is not None:
                    self._take_over(run)
        self._hand_over()
        return Scan(self._pieces, ChunkTable(list(self._ids), self._first, self._last, self._count), len(wanted))

    def _gaps(self, runs: list[Run]) -> Iterator[_Gap]:
        """Yield the gap before each run, and the one after the last."""
        chunk, offset = 0, 0
        for run in runs:
            yield _Gap(chunk, offset, run.new, int(self._known.first[run.known]))
            if run.whole:
                chunk, offset = len(self._ids), 0
            else:
                chunk, offset = run.new + run.length - 1, int(self._known.last[run.known + run.length - 1])
        yield _Gap(chunk, offset, len(self._ids), 0)

    def _take_over(self, run: Run) -> None:
        new, known = slice(run.new, run.new + run.length), slice(run.known, run.known + run.length)
        first, end = int(self._item_start[known.start]), int(self._item_start[known.stop])
        self._first[new], self._last[new] = self._known.first[known], self._known.last[known]
        self._count[new] += self._known.count[known]
        if not run.whole:
            end -= 1
            self._count[new.stop - 1] -= 1  # the last item is parsed again and counted then
        self._pieces.append((first, end))

    def _parse(self, gap: _Gap, data: Iterator[bytes]) -> None:
        reader = ItemReader()
        for number in gap.chunks:
            if number != self._held[0]:
                self._held = number, next(data)
            chunk = self._held[1]
            start = gap.offset if number == gap.chunk else 0
            end = gap.end_offset if number == gap.end_chunk else len(chunk)
            if not start <= end <= len(chunk):
                raise StateMismatch("a chunk is shorter than remembered")
            items, starts = reader.feed(chunk[start:end], number, start)
            self._note(items, starts)
        if not reader.at_boundary:
            if gap.end_chunk < len(self._ids):
                raise StateMismatch("an item does not end where the next known one starts")
            raise GarbledItems("the items end in the middle of one")

    def _note(self, items: list[bytes], starts: list[tuple[int, int]]) -> None:
        """Record completed items. All except the first start in the same chunk as the last."""
        if not items:
            return
        self._note_starts(*starts[0], 1, starts[0][1])
        if len(starts) > 1:
            self._note_starts(*starts[1], len(starts) - 1, starts[-1][1])
        if self._pieces and isinstance(self._pieces[-1], int):
            self._pieces[-1] += len(items)
        else:
            self._pieces.append(len(items))
        self._waiting += items
        self._waiting_bytes += sum(map(len, items))
        if self._waiting_bytes >= _EMIT_BYTES:
            self._hand_over()

    def _note_starts(self, chunk: int, offset: int, count: int, last: int) -> None:
        if not self._count[chunk]:
            self._first[chunk] = offset
        self._last[chunk] = last
        self._count[chunk] += count

    def _hand_over(self) -> None:
        if self._waiting:
            self._emit(self._waiting)
            self._waiting, self._waiting_bytes = [], 0


class ItemReader:
    """Splits a stream of msgpack objects that arrives in pieces into the bytes of each object."""

    def __init__(self) -> None:
        # The buffer contains the rest of an item and one more chunk.
        self._unpacker = msgpack.Unpacker(max_buffer_size=2 * ITEM_BYTES_MOST)
        self._received = 0
        self._boundary = 0  # end of the last complete object
        self._rest: list[bytes] = []  # the beginning of an incomplete object
        self._rest_start = (0, 0)

    @property
    def at_boundary(self) -> bool:
        return self._boundary == self._received

    def feed(self, data: bytes, chunk: int, offset: int) -> tuple[list[bytes], list[tuple[int, int]]]:
        """Take the next piece, from this offset of this chunk. Return the objects completed by it, and where each
        starts.
        """
        before = self._received
        self._received += len(data)
        if len(data) + sum(map(len, self._rest)) > 2 * ITEM_BYTES_MOST:
            raise ItemTooLarge(_TOO_LARGE)
        ends = [end - before for end in self._ends(data)]
        if not ends:
            if not self._rest:
                self._rest_start = (chunk, offset)
            if data:
                self._rest.append(data)
            if self._received - self._boundary > ITEM_BYTES_MOST:
                raise ItemTooLarge(_TOO_LARGE)
            return [], []
        begins = [0, *ends[:-1]]
        self._check_maps(data, begins)
        items = [data[begin:end] for begin, end in zip(begins, ends, strict=True)]
        starts = [(chunk, offset + begin) for begin in begins]
        if self._rest:
            items[0] = b"".join([*self._rest, items[0]])
            starts[0] = self._rest_start
        self._boundary = before + ends[-1]
        self._rest = [data[ends[-1] :]] if ends[-1] < len(data) else []
        self._rest_start = (chunk, offset + ends[-1])
        return items, starts

    def _check_maps(self, data: bytes, begins: list[int]) -> None:
        """Raise GarbledItems unless every item is a map: anything else means that no item starts there."""
        head = self._rest[0][:1] if self._rest else data[:1]
        if head[0] not in _MAP_STARTS or any(data[begin] not in _MAP_STARTS for begin in begins[1:]):
            raise GarbledItems("an item is not a map")

    def _ends(self, data: bytes) -> list[int]:
        ends: list[int] = []
        skip, tell, note = self._unpacker.skip, self._unpacker.tell, ends.append
        try:
            self._unpacker.feed(data)
            while len(ends) <= max(_FEW_ITEMS, len(data) // ITEM_BYTES_LEAST):
                skip()
                note(tell())
            raise GarbledItems("the items are smaller than any item can be")
        except msgpack.OutOfData:
            return ends
        except (ValueError, msgpack.UnpackException, RecursionError) as error:
            raise GarbledItems(f"the items cannot be read: {error}") from error
