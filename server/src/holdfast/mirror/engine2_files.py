"""Compares the files of an engine 2 repository, mostly named by the hash of their content, with those of its mirror.

Packs on the mirror become obsolete only through a compaction, which rewrites the whole index. So packs that are missing
while the index is unchanged are lost.
"""

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path

from backup_engine.frozen import frozen

PACKS, INDEX, KEYS = "packs", "index", "keys"
MARK = "cache/chunkindex-invalid"
"""The engine's own mark for an index that does not match the packs; the engine then rebuilds it from the packs."""
UNFINISHED = ".tmp"
NAME_LENGTH = 64

Listing = dict[str, int]
"""Paths in a repository, with the sizes of the files."""


@frozen
class Comparison:
    lacking: Listing
    """Files that the mirror lacks or has only in part."""
    surplus: bool
    """Whether the mirror has files that are no longer in the repository."""
    lost: tuple[str, ...]
    """Packs that the mirror has and that should also be in the repository."""

    @property
    def is_equal(self) -> bool:
        return not self.lacking and not self.surplus


def listing_of(lines: Iterable[str]) -> Listing:
    """Given the output of `rclone lsf --format sp --separator :`, return the files."""
    parted = (line.partition(":") for line in lines)
    return {path: int(size) for size, colon, path in parted if colon and size.isdecimal()}


def listing_here(repository: Path) -> Listing:
    """The files of a repository that are named by their content."""
    return {
        str(file.relative_to(repository)): file.stat().st_size
        for folder in (PACKS, INDEX, KEYS)
        for file in (repository / folder).rglob("*")
        if file.is_file() and not file.name.endswith(UNFINISHED)
    }


def compared(here: Listing, there: Listing) -> Comparison:
    """Compare the files of the repository with those of its mirror, which may also contain the engine's mark."""
    is_marked = MARK in there
    there = {path: size for path, size in there.items() if path != MARK}
    gone = sorted(there.keys() - here.keys())
    index_is_the_same = not is_marked and any(_is_in(INDEX, path) for path in there)
    index_is_the_same = index_is_the_same and not any(_is_in(INDEX, path) for path in gone)
    return Comparison(
        lacking={path: size for path, size in sorted(here.items()) if there.get(path) != size},
        surplus=bool(gone) or is_marked,
        lost=tuple(path for path in gone if index_is_the_same and _is_in(PACKS, path)),
    )


def damaged(repository: Path, sizes: Listing, look_up: Callable[[int], None]) -> list[str]:
    """Given the files to copy, return those that are unreadable or do not match their names.

    `look_up` is called after each file, with its size.
    """
    found = []
    for path, size in sizes.items():
        if not _is_whole(repository / path):
            found.append(path)
        look_up(size)
    return found


def _is_whole(file: Path) -> bool:
    if len(file.name) != NAME_LENGTH:
        return True
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest() == file.name
    except OSError:
        return False


def _is_in(folder: str, path: str) -> bool:
    return path.startswith(f"{folder}/")
