"""Writes a zip file while its members arrive, without seeking and in constant memory.

The list of members that ends the file is kept in a temporary file; the standard library's writer keeps it in memory.
"""

import struct
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from tempfile import SpooledTemporaryFile
from types import TracebackType
from typing import Self

from backup_engine.frozen import frozen

LOCAL_HEADER = struct.Struct("<4s5H3I2H")
CENTRAL_HEADER = struct.Struct("<4s6H3I5H2I")
DESCRIPTOR = struct.Struct("<4s3I")
DESCRIPTOR_64 = struct.Struct("<4sI2Q")
END = struct.Struct("<4s4H2IH")
END_64 = struct.Struct("<4sQ2H2I4Q")
LOCATOR_64 = struct.Struct("<4sIQI")

STORED, DEFLATED = 0, 8
SIZES_FOLLOW, NAME_IS_UTF8 = 0x0008, 0x0800
NEEDS_DEFLATE, NEEDS_64 = 20, 45
MADE_ON_UNIX = 3 << 8 | NEEDS_64
FULL_16, FULL_32 = 0xFFFF, 0xFFFFFFFF
LARGE = 0xF0000000
"""Announced sizes from here on use 64-bit fields, because deflate may enlarge a file slightly."""
FOLDER_ATTRIBUTE = 0x10
TIMESTAMP_EXTRA, ZIP64_EXTRA = 0x5455, 0x0001
IN_MEMORY = 1 << 20
FASTEST, NOT_AT_ALL = 1, 0
SMALL, SAMPLE = 1 << 12, 1 << 15
WORTH_IT = 0.95


@frozen
class Member:
    """``name`` ends with a slash for a folder; ``mode`` is a ``stat`` mode, including the file type."""

    name: bytes
    mode: int
    modified: float
    size: int = 0


class ZipStream:
    """Each method yields bytes to pass on. ``end`` must come last; without it, the file is visibly incomplete."""

    def __init__(self) -> None:
        self._offset = 0
        self._count = 0
        self._central = SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 -- closed by `close`

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._central.close()

    def short(self, member: Member, content: bytes = b"") -> Iterator[bytes]:
        """Write a folder, a link or another member whose whole content is available."""
        start = self._offset
        checksum = zlib.crc32(content)
        flags = _name_flag(member.name)
        yield self._counted(
            _local(member, flags, STORED, checksum, len(content), len(content), _timestamp(member)) + content
        )
        self._note(member, flags, STORED, checksum, len(content), len(content), start)

    def streamed(self, member: Member, content: Iterator[bytes]) -> Iterator[bytes]:
        """Write a file whose content arrives in blocks; its sizes follow in a data descriptor."""
        start = self._offset
        large = member.size >= LARGE
        flags = SIZES_FOLLOW | _name_flag(member.name)
        extra = (struct.pack("<2H2Q", ZIP64_EXTRA, 16, 0, 0) if large else b"") + _timestamp(member)
        unknown = FULL_32 if large else 0
        yield self._counted(_local(member, flags, DEFLATED, 0, unknown, unknown, extra, large=large))
        checksum = size = packed = 0
        packer = None
        for block in content:
            packer = packer or zlib.compressobj(_level(block), zlib.DEFLATED, -zlib.MAX_WBITS)
            checksum = zlib.crc32(block, checksum)
            size += len(block)
            if squeezed := packer.compress(block):
                packed += len(squeezed)
                yield self._counted(squeezed)
        squeezed = (packer or zlib.compressobj(wbits=-zlib.MAX_WBITS)).flush()
        packed += len(squeezed)
        descriptor = DESCRIPTOR_64 if large else DESCRIPTOR
        yield self._counted(squeezed + descriptor.pack(b"PK\7\x08", checksum, packed, size))
        self._note(member, flags, DEFLATED, checksum, packed, size, start)

    def end(self) -> Iterator[bytes]:
        """Write the list of members and the end record."""
        start = self._offset
        self._central.seek(0)
        while block := self._central.read(IN_MEMORY):
            yield self._counted(block)
        length = self._offset - start
        yield self._counted(_end(self._count, length, start, self._offset))

    def _counted(self, data: bytes) -> bytes:
        self._offset += len(data)
        return data

    def _note(self, member: Member, flags: int, method: int, checksum: int, packed: int, size: int, start: int) -> None:
        """Record the member for the list at the end."""
        beyond = [value for value in (size, packed, start) if value >= FULL_32]
        extra = struct.pack(f"<2H{len(beyond)}Q", ZIP64_EXTRA, 8 * len(beyond), *beyond) if beyond else b""
        extra += _timestamp(member)
        time, date = _dos_moment(member.modified)
        attributes = (member.mode & FULL_16) << 16 | (FOLDER_ATTRIBUTE if member.name.endswith(b"/") else 0)
        self._central.write(
            CENTRAL_HEADER.pack(
                b"PK\1\2",
                MADE_ON_UNIX,
                NEEDS_64 if beyond or member.size >= LARGE else NEEDS_DEFLATE,
                flags,
                method,
                time,
                date,
                checksum,
                min(packed, FULL_32),
                min(size, FULL_32),
                len(member.name),
                len(extra),
                0,
                0,
                0,
                attributes,
                min(start, FULL_32),
            )
            + member.name
            + extra
        )
        self._count += 1


def _local(
    member: Member, flags: int, method: int, checksum: int, packed: int, size: int, extra: bytes, *, large: bool = False
) -> bytes:
    time, date = _dos_moment(member.modified)
    needed = NEEDS_64 if large else NEEDS_DEFLATE
    header = LOCAL_HEADER.pack(
        b"PK\3\4", needed, flags, method, time, date, checksum, packed, size, len(member.name), len(extra)
    )
    return header + member.name + extra


def _end(count: int, length: int, start: int, offset: int) -> bytes:
    ending = b""
    if count >= FULL_16 or length >= FULL_32 or start >= FULL_32:
        size = END_64.size - 12  # excludes the signature and this field itself
        ending = END_64.pack(b"PK\6\6", size, MADE_ON_UNIX, NEEDS_64, 0, 0, count, count, length, start)
        ending += LOCATOR_64.pack(b"PK\6\7", 0, offset, 1)
    counted = min(count, FULL_16)
    return ending + END.pack(b"PK\5\6", 0, 0, counted, counted, min(length, FULL_32), min(start, FULL_32), 0)


def _level(beginning: bytes) -> int:
    """The compression level.

    Content that is already compressed, such as images and videos, is stored: trying to compress it would cost ten times
    as much.
    """
    sample = beginning[:SAMPLE]
    is_worth_it = len(sample) < SMALL or len(zlib.compress(sample, FASTEST)) < len(sample) * WORTH_IT
    return FASTEST if is_worth_it else NOT_AT_ALL


def _name_flag(name: bytes) -> int:
    """Names that are not valid UTF-8 are written as raw bytes, so that every name stays exact."""
    try:
        name.decode("utf-8")
    except UnicodeDecodeError:
        return 0
    return NAME_IS_UTF8


def _timestamp(member: Member) -> bytes:
    """The time in UTC seconds, in addition to the zip format's own, which has no time zone and a resolution of two
    seconds.
    """
    seconds = int(member.modified)
    return struct.pack("<2HBi", TIMESTAMP_EXTRA, 5, 1, seconds) if -(2**31) <= seconds < 2**31 else b""


def _dos_moment(modified: float) -> tuple[int, int]:
    earliest, latest = 315532800, 4354819198  # 1980 to 2107
    moment = datetime.fromtimestamp(min(max(modified, earliest), latest), UTC)
    time = moment.hour << 11 | moment.minute << 5 | moment.second // 2
    return time, (moment.year - 1980) << 9 | moment.month << 5 | moment.day
