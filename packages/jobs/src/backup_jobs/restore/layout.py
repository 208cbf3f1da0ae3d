"""Target paths of archived files, relative to the destination."""

from dataclasses import field

from backup_engine.frozen import frozen
from backup_jobs.paths import ancestors


@frozen
class Placement:
    """``roots`` are the wanted paths, none below another; empty means the whole archive."""

    roots: tuple[bytes, ...]
    contents_only: bool
    _known: frozenset[bytes] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_known", frozenset(self.roots))

    def root_of(self, path: bytes) -> bytes | None:
        """The wanted path that equals this path or is a folder above it."""
        if path in self._known:
            return path
        return next((folder for folder in ancestors(path) if folder in self._known), None)

    def target(self, path: bytes, *, is_directory: bool) -> bytes | None:
        """The target of an archived path; None for a wanted folder of which only the contents are restored."""
        if not (self.contents_only and self.roots):
            return path
        root = self.root_of(path)
        if root is None:
            return path
        if path != root:
            return path[len(root) + 1 :]
        return None if is_directory else path.rpartition(b"/")[2]

    @property
    def may_collide(self) -> bool:
        """Whether two items may have the same target, as the contents of several folders can share names."""
        return self.contents_only and len(self.roots) > 1
