"""Reads an archive's file records from the engine's spooled listing."""

import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from backup_engine.frozen import frozen
from backup_engine.listing import JSON_START, json_record
from backup_engine.listing import records as lines
from backup_engine.results import GarbledOutput

BLOCK_BYTES = 1 << 20
FIELDS = 8
NOT_EXACT = "?"
"""The engine writes this for every byte that is not valid UTF-8, so a name containing it cannot be requested."""


NOT_NAMES = frozenset({"", ".", ".."})


@frozen
class FileRecord:
    """One entry of an archive. `mode` begins with the letter of its type; `h` is a hard link to an earlier entry."""

    mode: str
    size: int
    path: str

    @property
    def is_file(self) -> bool:
        return self.mode.startswith("-")

    @property
    def can_be_named(self) -> bool:
        return NOT_EXACT not in self.path and self.path.isprintable()


R = TypeVar("R", bound=FileRecord)


def unsafe_paths(records: Iterable[FileRecord]) -> Iterator[str]:
    """Paths that restores refuse to write, because they lead outside the destination or are not valid."""
    for record in records:
        is_root = record.path == "." and record.mode.startswith("d")
        if not is_root and ("\0" in record.path or not NOT_NAMES.isdisjoint(record.path.split("/"))):
            yield record.path


def read_records(listing: Path) -> Iterator[FileRecord]:
    """Given the spooled output of `list_files`, yield its records in order. Raise GarbledOutput if it is cut short."""
    with listing.open("rb") as stream:
        first = stream.read(BLOCK_BYTES)
        if first.startswith(JSON_START):
            blocks = iter(lambda: stream.read(BLOCK_BYTES), b"")
            yield from map(_json_record, lines(first, blocks, b"\n"))
            return
    yield from _plain_records(listing)


def _plain_records(listing: Path) -> Iterator[FileRecord]:
    rest = b""
    with listing.open("rb") as stream:
        while block := stream.read(BLOCK_BYTES):
            parts = (rest + block).split(b"\0")
            rest = parts.pop()
            if len(parts) % 2:  # the link target of the last record is in the next block
                rest = parts.pop() + b"\0" + rest
            yield from map(_record, parts[::2])
    if rest:
        raise GarbledOutput("The engine's listing ends in the middle of a record.")


def _record(head: bytes) -> FileRecord:
    fields = head.decode("utf-8", "replace").split("\t", FIELDS - 1)
    if len(fields) != FIELDS or not fields[0] or not fields[5].isdigit():
        raise GarbledOutput("The engine's listing has an unreadable record.")
    return FileRecord(mode=fields[0], size=int(fields[5]), path=fields[7])


def _json_record(line: bytes) -> FileRecord:
    parsed = json_record(line)
    return FileRecord(mode=parsed.mode, size=parsed.size, path=parsed.shown)


@frozen
class Extent:
    files: int
    bytes: int


def extent_of(records: Iterable[FileRecord]) -> Extent:
    files = size = 0
    for record in records:
        if record.is_file:
            files += 1
            size += record.size
    return Extent(files, size)


def choose(records: Iterable[R], number: int, seed: str) -> list[R]:
    """Choose files at random, all equally likely, in archive order. The same seed chooses the same files."""
    generator = random.Random(seed)  # noqa: S311 -- randomness, not secrecy
    kept: list[tuple[int, R]] = []
    eligible = (record for record in records if record.is_file and record.can_be_named)
    for position, record in enumerate(eligible):
        if position < number:
            kept.append((position, record))
        elif (place := generator.randrange(position + 1)) < number:
            kept[place] = (position, record)
    return [record for _, record in sorted(kept, key=lambda entry: entry[0])]
