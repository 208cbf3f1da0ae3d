"""Archives built from entries, in the two forms in which the engine outputs them."""

import io
import stat
import zlib
from collections.abc import Generator, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256

import msgpack  # type: ignore[import-untyped]

from holdfast.history.entry import NANOSECONDS_1_2, Entry, listed
from holdfast.history.listing import Listing


def record(entry: Entry) -> bytes:
    """The record that the engine's listing prints for an entry."""
    shown = listed(entry)
    letters = stat.filemode(entry.mode)
    mode = "h" + letters[1:] if entry.is_hard_link else letters
    time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=entry.mtime)
    fields = [
        ascii(entry.path.decode("utf-8", "surrogateescape")),
        letters[0] + mode,
        str(entry.uid),
        str(entry.gid),
        ascii(entry.user) if entry.user else str(entry.uid),
        ascii(entry.group) if entry.group else str(entry.gid),
        str(entry.size),
        time.strftime("%Y-%m-%dT%H:%M:%S.%f"),
        ascii(shown.link.decode("utf-8", "surrogateescape")),
    ]
    return "\t".join(fields).encode()


def listing_of(entries: Iterable[Entry], code: int = 0) -> Listing:
    text = b"".join(record(entry) + b"\0" for entry in entries)
    return Listing(io.BytesIO(text), lambda: code)


def item(entry: Entry) -> bytes:
    """The item that the engine stores for an entry."""
    fields: dict[str, object] = {
        "path": entry.path,
        "mode": entry.mode,
        "uid": entry.uid,
        "gid": entry.gid,
        "user": entry.user.encode() if entry.user else None,
        "group": entry.group.encode() if entry.group else None,
        "mtime": entry.mtime * 1000,
    }
    if entry.link:
        fields["source"] = entry.link
    if stat.S_ISREG(entry.mode) and entry.size:
        fields["chunks"] = chunks_of(entry)
        fields["size"] = entry.size
    packed: bytes = msgpack.packb(fields, use_bin_type=False)
    return packed


def chunks_of(entry: Entry) -> list[list[object]]:
    """The content in pieces of at most 1,000 bytes; equal content begins with equal pieces."""
    sizes = [min(1000, entry.size - at) for at in range(0, entry.size, 1000)]
    return [
        [sha256(b"%d %d %d" % (entry.content, place, size)).digest(), size, size // 2]
        for place, size in enumerate(sizes)
    ]


class FakeChunks:
    """Archives as metadata chunks, cut by content as the engine does."""

    latest_nanoseconds = NANOSECONDS_1_2
    major = 1

    def __init__(self, mean: int = 400) -> None:
        self.mean = mean
        self.archives: dict[str, list[bytes]] = {}
        self.stored: dict[bytes, bytes] = {}
        self.fetched: list[bytes] = []

    def add(self, archive: str, entries: Iterable[Entry]) -> "FakeChunks":
        self.add_stream(archive, b"".join(item(entry) for entry in entries))
        return self

    def add_stream(self, archive: str, stream: bytes) -> None:
        ids = []
        for chunk in cut(stream, self.mean):
            name = sha256(chunk).digest()
            self.stored[name] = chunk
            ids.append(name)
        self.archives[archive] = ids

    def chunk_ids(self, archive: str) -> list[bytes]:
        return self.archives[archive]

    def chunks(self, ids: Sequence[bytes]) -> Generator[bytes]:
        self.fetched += ids
        yield from (self.stored[name] for name in ids)

    def segments(self, joined_ids: bytes) -> bytes:
        """The first byte of each id as a four-byte number."""
        return b"".join(bytes([0, 0, 0, joined_ids[at]]) for at in range(0, len(joined_ids), 32))

    def stored_sizes(self, joined_ids: bytes) -> bytes:
        return self.segments(joined_ids)


def cut(stream: bytes, mean: int) -> list[bytes]:
    """Cut where a checksum of the last eight bytes decides so, regardless of the position in the stream."""
    pieces, start = [], 0
    for end in range(8, len(stream)):
        if end - start >= 16 and zlib.crc32(stream[end - 8 : end]) % mean == 0:
            pieces.append(stream[start:end])
            start = end
    if start < len(stream):
        pieces.append(stream[start:])
    return pieces
