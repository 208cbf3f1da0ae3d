"""What restoring the wanted paths of an archive would mean, told by its listing before anything is written."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from backup_engine.listing import LINK, ListedFile

MOST_NAMED = 100
MOST_LINKS_IN_THE_WAY = 100
"""Each becomes an argument of the engine."""


@dataclass(slots=True)
class Survey:
    files: int = 0
    size: int = 0
    missing: list[bytes] = field(default_factory=list)
    """Wanted paths that the archive does not hold."""
    unsafe: list[bytes] = field(default_factory=list)
    """Archived paths that would lead out of the folder that they are extracted to."""
    links_in_the_way: list[bytes] = field(default_factory=list)
    """Archived links that other archived paths lead through: they are left out."""
    collisions: list[bytes] = field(default_factory=list)
    """Paths that would land where another one does."""


def survey(items: Iterable[ListedFile], roots: tuple[bytes, ...], *, contents_only: bool) -> Survey:
    """Given all wanted items and the wanted paths, return what is to be known before the engine is let go."""
    found = Survey()
    links: set[bytes] = set()
    in_the_way: set[bytes] = set()
    landed: dict[bytes, bool] = {}
    missing = set(roots)
    for item in items:
        if any(part in (b"", b".", b"..") for part in item.path.split(b"/")):
            _note(found.unsafe, item.path)
            continue
        root = next((root for root in roots if item.path == root or item.path.startswith(root + b"/")), None)
        missing.discard(root or b"")
        in_the_way.update(folder for folder in _ancestors(item.path) if folder in links)
        if item.type == LINK:
            links.add(item.path)
        if not item.is_directory:
            found.files += 1
            found.size += item.size if item.type != LINK else 0
        if contents_only and len(roots) > 1 and root is not None:
            _look_for_collision(found, landed, item, root)
    found.missing = sorted(missing)
    found.links_in_the_way = sorted(in_the_way)[:MOST_LINKS_IN_THE_WAY]
    found.unsafe += sorted(in_the_way)[MOST_LINKS_IN_THE_WAY:]
    return found


def _look_for_collision(found: Survey, landed: dict[bytes, bool], item: ListedFile, root: bytes) -> None:
    target = item.path[len(root) + 1 :] or (b"" if item.is_directory else root.rpartition(b"/")[2])
    if not target:
        return
    is_folder = landed.get(target)
    if is_folder is not None and not (is_folder and item.is_directory):
        _note(found.collisions, item.path)
    landed[target] = item.is_directory


def _ancestors(path: bytes) -> Iterator[bytes]:
    while b"/" in path:
        path = path.rpartition(b"/")[0]
        yield path


def _note(paths: list[bytes], path: bytes) -> None:
    if len(paths) < MOST_NAMED:
        paths.append(path)
