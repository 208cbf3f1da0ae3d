"""The files of an archive, read from the exact listing (``ListFilesRequest(exact=True)``) in constant memory."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from backup_engine.parse import GarbledOutput

LONGEST_RECORD = 1 << 20
FIELDS = 3
LITERAL = re.compile(rb"""(?:[^\\]|\\(?:[\\'"nrt]|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}))*""")
REGULAR, DIRECTORY, LINK = "-", "d", "l"


@dataclass(frozen=True, slots=True)
class ListedFile:
    """One item. ``type`` is the first letter of ``ls -l``; a second name of a file tells no size of its own."""

    path: bytes
    type: str
    size: int
    is_hard_link: bool = False

    @property
    def is_directory(self) -> bool:
        return self.type == DIRECTORY

    @property
    def is_special(self) -> bool:
        """A FIFO or a device: something that has no content of its own."""
        return self.type not in (REGULAR, DIRECTORY, LINK)


def read_listing(blocks: Iterable[bytes]) -> Iterator[ListedFile]:
    """Given the listing in blocks of any size, yield its items. Raise GarbledOutput where it is cut off or unreadable."""
    rest = b""
    for block in blocks:
        *records, rest = (rest + block).split(b"\0")
        if len(rest) > LONGEST_RECORD:
            raise GarbledOutput("The engine's listing has a record without an end.")
        for record in records:
            yield _item(record)
    if rest:
        raise GarbledOutput("The engine's listing ends in the middle of a record.")


def _item(record: bytes) -> ListedFile:
    fields = record.split(b"\t")
    if len(fields) != FIELDS:
        raise GarbledOutput("The engine's listing has a record that is not one.")
    literal, kind, size = fields
    try:
        return ListedFile(exact_bytes(literal), kind[:1].decode("ascii"), int(size), kind[1:2] == b"h")
    except ValueError as error:
        raise GarbledOutput("The engine's listing has a record that cannot be read.") from error


def exact_bytes(literal: bytes) -> bytes:
    """Given a text as an ASCII literal in quotes, return the bytes of the name it stands for. Raise ValueError."""
    inner = literal[1:-1]
    if len(literal) < 3 or literal[:1] not in (b"'", b'"') or literal[-1:] != literal[:1] or not inner.isascii():
        raise ValueError("not a text literal")
    if b"\\" not in inner:
        return inner
    if not LITERAL.fullmatch(inner):
        raise ValueError("not a text literal")
    return inner.decode("unicode_escape").encode("utf-8", "surrogateescape")
