"""Read the files of an archive from the exact listing (``ListFilesRequest(exact=True)``) in constant memory.

The first byte identifies the format: a record of major 1 starts with a quote and ends with NUL, one of major 2 is a
JSON object on one line.
"""

import base64
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from backup_engine.frozen import frozen
from backup_engine.results import GarbledOutput

LONGEST_RECORD = 1 << 20
FIELDS = 3
LITERAL = re.compile(rb"""[^\\]*(?:\\(?:x[0-9a-f]{2}|[\\'"nrt]|u[0-9a-f]{4}|U[0-9a-f]{8})[^\\]*)*""")
JSON_START = b"{"
REGULAR, DIRECTORY, LINK = "-", "d", "l"


@frozen
class ListedFile:
    """One item of a listing. ``type`` is the first letter of ``ls -l``. Further hard links of a file have no size."""

    path: bytes
    type: str
    size: int
    is_hard_link: bool = False

    @property
    def is_directory(self) -> bool:
        return self.type == DIRECTORY

    @property
    def is_special(self) -> bool:
        """Whether this is a FIFO or a device, which has no content of its own."""
        return self.type not in (REGULAR, DIRECTORY, LINK)


def read_listing(blocks: Iterable[bytes]) -> Iterator[ListedFile]:
    """Yield the items of a listing that arrives in blocks of any size.

    Raise GarbledOutput if it is cut off or unreadable.
    """
    stream = iter(blocks)
    first = next((block for block in stream if block), b"")
    is_json = first.startswith(JSON_START)
    read = _json_item if is_json else _item
    for record in records(first, stream, b"\n" if is_json else b"\0"):
        yield read(record)


def records(first: bytes, blocks: Iterable[bytes], end: bytes) -> Iterator[bytes]:
    """Yield the records terminated by ``end``, given the first block and the following ones.

    Raise GarbledOutput if the last record is not terminated.
    """
    *whole, rest = first.split(end)
    yield from whole
    for block in blocks:
        *whole, rest = (rest + block).split(end)
        if len(rest) > LONGEST_RECORD:
            raise GarbledOutput("The engine's listing has an unterminated record.")
        yield from whole
    if rest:
        raise GarbledOutput("The engine's listing ends in the middle of a record.")


def _item(record: bytes) -> ListedFile:
    fields = record.split(b"\t")
    if len(fields) != FIELDS:
        raise GarbledOutput("The engine's listing has an invalid record.")
    literal, kind, size = fields
    try:
        return ListedFile(exact_bytes(literal), kind[:1].decode("ascii"), int(size), kind[1:2] == b"h")
    except ValueError as error:
        raise GarbledOutput("The engine's listing has an unreadable record.") from error


def _json_item(record: bytes) -> ListedFile:
    item = json_record(record)
    return ListedFile(item.path, item.type, item.size)


@frozen
class JsonRecord:
    """One line of major 2's listing.

    Every hard link of a file has the full size; ``link`` is the target of a symbolic link.
    """

    path: bytes
    shown: str
    """The path as the engine writes it elsewhere: with ``?`` for each byte that is not valid UTF-8."""
    type: str
    mode: str
    uid: int
    gid: int
    user: str | None
    group: str | None
    size: int
    mtime: str
    link: bytes
    fingerprint: str


def json_record(line: bytes) -> JsonRecord:
    """Parse a line of a listing. Raise GarbledOutput if it is not one."""
    try:
        fields: dict[str, Any] = json.loads(line)
        return JsonRecord(
            path=_exact(fields, "path"),
            shown=_word(fields["path"]),
            type=_letter(fields["type"]),
            mode=_word(fields["mode"]),
            uid=_number(fields["uid"] or 0),
            gid=_number(fields["gid"] or 0),
            user=_name(fields["user"], fields["uid"]),
            group=_name(fields["group"], fields["gid"]),
            size=_number(fields["size"]),
            mtime=_word(fields["mtime"]),
            link=_exact(fields, "target"),
            fingerprint=_word(fields["fingerprint"]),
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise GarbledOutput("The engine's listing has an unreadable record.") from error


def _exact(fields: dict[str, Any], key: str) -> bytes:
    """The bytes of a name. A name that is not valid UTF-8 is given in base64 next to its readable form."""
    exact = fields.get(f"{key}_b64")
    return base64.b64decode(exact, validate=True) if exact else _word(fields[key]).encode("utf-8", "surrogateescape")


def _word(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value


def _letter(value: object) -> str:
    if len(letter := _word(value)) != 1:
        raise ValueError("not a letter")
    return letter


def _name(value: object, number: object) -> str | None:
    """The name of an owner; None if the archive contains only the number."""
    return None if value == str(number) else _word(value)


def _number(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError("not a number")
    return value


def exact_bytes(literal: bytes) -> bytes:
    """The bytes of a name that is written as a quoted ASCII literal. Raise ValueError."""
    inner = literal[1:-1]
    if len(literal) < 3 or literal[:1] not in (b"'", b'"') or literal[-1:] != literal[:1] or not inner.isascii():
        raise ValueError("not a text literal")
    if b"\\" not in inner:
        return inner
    if not LITERAL.fullmatch(inner):
        raise ValueError("not a text literal")
    return inner.decode("unicode_escape").encode("utf-8", "surrogateescape")
