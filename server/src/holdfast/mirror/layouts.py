"""The files of a repository to mirror, and their order, for each major of the engine."""

from collections.abc import Sequence

from backup_engine.frozen import frozen
from holdfast.mirror.number_pattern import up_to


@frozen
class Layout:
    data: tuple[str, ...]
    """Files that never change once written.

    They are copied first: files that refer to them must never exist without them.
    """
    smallest_data: str | None
    """Minimum size of `data` files to copy first, because smaller ones refer to the others."""
    settings: tuple[str, ...]
    """Small files that change in place.

    They are always copied, because some remotes do not notice a change that keeps the size.
    """
    left_out: tuple[str, ...]
    """Locks and caches: they belong to one place and its programs."""
    identity_file: str
    named_by_content: bool = False
    """The data and its index are named by their content, so that each file can be verified."""

    def known(self, newest: int, uncommitted: Sequence[str]) -> tuple[str, ...]:
        """Filters for data that the mirror has completely: everything up to its last complete sync."""
        return self._data(_rules("+", self._numbered(newest)), uncommitted)

    def first(self, newest: int | None, uncommitted: Sequence[str]) -> tuple[str, ...]:
        """Filters for later data, which the mirror may have in part."""
        known = self._numbered(newest) if newest is not None else ()
        return self._data((*_rules("-", known), *_rules("+", self.data)), uncommitted)

    def everything(self, uncommitted: Sequence[str]) -> tuple[str, ...]:
        return self._without(uncommitted)

    def only_data(self) -> tuple[str, ...]:
        return (*self._without(()), *_rules("+", self.data), *_rules("-", ("*",)))

    def only_names(self) -> tuple[str, ...]:
        """Filters for files that refer to the data, without the settings."""
        return (*self._without(()), *_rules("-", (*self.data, *self.settings)))

    def only_settings(self) -> tuple[str, ...]:
        return (*_rules("+", self.settings), *_rules("-", ("*",)))

    def _data(self, rules: Sequence[str], uncommitted: Sequence[str]) -> tuple[str, ...]:
        smallest = ("--min-size", self.smallest_data) if self.smallest_data else ()
        return (*self._without(uncommitted), *rules, *_rules("-", ("*",)), *smallest)

    def _numbered(self, newest: int) -> tuple[str, ...]:
        return tuple(f"{pattern.removesuffix('**')}*/{{{{(?:{up_to(newest)})}}}}" for pattern in self.data)

    def _without(self, uncommitted: Sequence[str]) -> tuple[str, ...]:
        return _rules("-", (*self.left_out, *(f"/{name}" for name in uncommitted)))


def _rules(sign: str, patterns: Sequence[str]) -> tuple[str, ...]:
    return tuple(word for pattern in patterns for word in ("--filter", f"{sign} {pattern}"))


LAYOUTS = {
    # Engine 1 ends each transaction with a segment of 17 bytes, the commit. Without it, the segments before it are
    # ignored.
    1: Layout(
        data=("/data/**",),
        smallest_data="18B",
        settings=("/config", "/README", "/nonce"),
        left_out=("/lock.exclusive/**", "/lock.exclusive.*/**", "/lock.roster*"),
        identity_file="config",
    ),
    2: Layout(
        data=("/packs/**",),
        smallest_data=None,
        settings=("/config/**",),
        left_out=("/locks/**", "/cache/**", "*.tmp"),
        identity_file="config/id",
        named_by_content=True,
    ),
}
