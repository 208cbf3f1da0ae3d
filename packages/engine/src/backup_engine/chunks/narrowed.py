"""Runs an engine's command for a few paths, so that it unpacks the metadata of these alone. Runs under the engine's own
Python, in the place of the engine's program: `python narrowed.py PROGRAM ARGUMENT …`.

An engine that restores one file of a million unpacks every item of the archive, twice, and makes an object of each.
Here every chunk of metadata is still fetched, decrypted and authenticated by the engine, in its order; then the items
are only counted off, and those in which the bytes of a wanted path are found are unpacked and compared. The engine's
own command gets these items as if the archive held no others, so whatever it does with an item it does as always. With
the wanted items go the files that wanted hard links of engine 1 name as their first name.

It stands alone (it imports nothing of Holdfast) and touches two functions of the engine. Wherever it is not certain (an
unknown version, another form of these functions, patterns that are no paths, metadata beyond the bounds), the engine's
program runs as it is.
"""

import copy
import os
import re
import runpy
import stat
import sys
from pathlib import Path
from typing import Any

KNOWN_VERSIONS = re.compile(r"1\.2\.[0-9]|1\.4\.[0-5]|2\.0\.0b23")
KEPT_BYTES_MOST = 16 * 1024 * 1024
"""Of the wanted items of an archive, packed: about 80,000 files. Writing these costs more than what is saved."""
ITEM_BYTES_MOST = 16 * 1024 * 1024
NEEDLES_MOST = 16
"""Paths that are looked for one by one; of more, what they begin with is looked for."""
SANITIZED = (b"//", b"/./")
"""What engine 2 leaves out of paths when it reads them: such a path is unpacked to be compared."""

_TRIAL_CHUNK_BYTES = 61


class Unusual(Exception):
    """The engine must read all of it by itself."""


class Wanted:
    """The paths of the command, and the items of an archive that are below them."""

    def __init__(self) -> None:
        self.matchers: Any = []
        self._ids: Any = None
        self._packed: Any = None

    def narrowed(self, ids: Any, fetch: Any) -> Any:
        """Given what fetches the metadata of an archive, return the packed items that the command needs.

        Return all of the metadata where it is not certain which.
        """
        if ids != self._ids:
            self._ids, self._packed = ids, None
            try:
                self._packed = self._read(fetch)
            except Exception:  # noqa: BLE001 - the engine says what is wrong, in its own words
                self._packed = None
        return fetch() if self._packed is None else iter(self._packed)

    def _read(self, fetch: Any) -> Any:
        roots = roots_of(self.matchers)
        packed, sources = scanned(fetch(), roots, frozenset())
        if sources:
            packed, _ = scanned(fetch(), roots, frozenset(sources))
        return packed


def roots_of(matchers: Any) -> Any:
    """The paths that a command was given. Raise Unusual if they are patterns, or not all that is wanted."""
    from borg.patterns import IECommand, PathFullPattern, PathPrefixPattern  # type: ignore[import-not-found]

    (matcher,) = matchers
    patterns = matcher.include_patterns
    roots = frozenset(pattern.pattern.strip("/") for pattern in patterns)
    others = [pattern for pattern, what in matcher._items if what is IECommand.Include]  # noqa: SLF001
    others += [path for path, what in matcher._path_full_patterns.items() if what is IECommand.Include]  # noqa: SLF001
    if not roots or "" in roots or sys.platform == "darwin" or matcher.fallback is not False:
        raise Unusual
    if not all(type(pattern) in (PathFullPattern, PathPrefixPattern) for pattern in patterns):
        raise Unusual
    if not all(other in patterns or other in roots for other in others):
        raise Unusual
    return roots


def scanned(stream: Any, roots: Any, sources: Any) -> Any:
    """As `scan`; whatever goes wrong, it takes the stream to its end, because a server sends what it was asked for."""
    try:
        return scan(stream, roots, sources)
    except Exception:
        for _ in stream:
            pass
        raise


def scan(stream: Any, roots: Any, sources: Any) -> Any:
    """Return the packed items below these paths and of these files, and the files that their hard links name."""
    from borg.item import Item  # type: ignore[import-not-found]

    packed: Any = []
    named = set()
    size = 0
    for items in found_items(stream, needles(roots | sources)):
        kept = []
        for item, value in items:
            read = Item(internal_dict=value)
            is_wanted = is_below(read.path, roots)
            if is_wanted and "source" in read and not stat.S_ISLNK(read.mode) and not is_below(read.source, roots):
                named.add(read.source)
            if is_wanted or read.path in sources:
                kept.append(item)
                size += len(item)
        if size > KEPT_BYTES_MOST:
            raise Unusual
        if kept:
            packed.append(b"".join(kept))
    return packed, named - sources


def is_below(path: str, roots: Any) -> bool:
    path = path.lstrip("/")
    if path in roots:
        return True
    at = path.find("/")
    while at >= 0:
        if path[:at] in roots:
            return True
        at = path.find("/", at + 1)
    return False


def needles(paths: Any) -> Any:
    """Bytes of which one is in every packed item that has such a path."""
    found = sorted(path.encode("utf-8", "surrogateescape") for path in paths)
    return found if len(found) <= NEEDLES_MOST else [os.path.commonprefix(found)]  # noqa: RUF071 - of bytes, not of names


def found_items(stream: Any, wanted: Any) -> Any:
    """Yield, for each chunk, the items that end in it and hold one of these bytes: each packed, and unpacked."""
    import borg  # type: ignore[import-not-found]
    from borg.helpers import msgpack  # type: ignore[import-not-found]

    wanted = [*wanted, *(SANITIZED if borg.__version__.startswith("2.") else ())]
    counter = msgpack.Unpacker(use_list=False)
    rest = b""
    begin = 0
    for data in stream:
        if data is None or len(rest) > ITEM_BYTES_MOST:
            raise Unusual
        counter.feed(data)
        window, origin = rest + data, begin
        ahead = [window.find(needle) for needle in wanted]
        first = nearest(ahead)
        items = []
        for end in ends_of_items(counter, msgpack.OutOfData):
            if first < end - origin:
                item = window[begin - origin : end - origin]
                items.append((item, msgpack.unpackb(item, use_list=False)))
                ahead = [
                    window.find(needle, end - origin) if 0 <= at < end - origin else at
                    for needle, at in zip(wanted, ahead)  # noqa: B905 - 3.8 has no strict
                ]
                first = nearest(ahead)
            begin = end
        rest = window[begin - origin :]
        yield items


def ends_of_items(counter: Any, nothing_more: Any) -> Any:
    """Yield where each item ends, counted from the beginning of the stream."""
    skip, tell = counter.skip, counter.tell
    while True:
        try:
            skip()
        except nothing_more:
            return
        yield tell()


def nearest(ahead: Any) -> Any:
    return min((at for at in ahead if at >= 0), default=sys.maxsize)


# --- in the engine's code ---------------------------------------------------------------------------------------------


def install(wanted: Wanted) -> None:
    """Make the engine report the paths of its command to `wanted`, and read items through it."""
    from borg.archive import DownloadPipeline  # type: ignore[import-not-found]
    from borg.patterns import PatternMatcher

    read_paths, unpack_many = PatternMatcher.add_includepaths, DownloadPipeline.unpack_many

    def add_includepaths(self: Any, include_paths: Any) -> None:
        read_paths(self, include_paths)
        wanted.matchers.append(self)

    def narrowed_unpack_many(self: Any, ids: Any, *more: Any, **options: Any) -> Any:
        through = copy.copy(self)
        through.fetch_many = lambda *given, **how: wanted.narrowed(list(ids), lambda: self.fetch_many(*given, **how))
        return unpack_many(through, ids, *more, **options)

    PatternMatcher.add_includepaths = add_includepaths
    DownloadPipeline.unpack_many = narrowed_unpack_many


class Trial:
    """In the place of a repository, a key and what unpacks: chunks that are kept as they are."""

    def __init__(self, stream: bytes) -> None:
        cut = [stream[at : at + _TRIAL_CHUNK_BYTES] for at in range(0, len(stream), _TRIAL_CHUNK_BYTES)]
        self.stored = {b"%032d" % number: data for number, data in enumerate(cut)}
        self.key = self

    def get_many(self, ids: Any, **_: Any) -> Any:
        return (self.stored[chunk] for chunk in ids)

    def decrypt(self, _chunk: Any, data: Any) -> Any:
        return data

    def parse(self, _chunk: Any, data: Any, **_: Any) -> Any:
        return {}, data

    def id_hash(self, data: bytes) -> bytes:
        return b"%032d" % -len(data)


def self_test() -> None:
    """Read a small archive with the engine as it is, and as it was changed. Raise Unusual if the items differ."""
    from borg.archive import DownloadPipeline
    from borg.patterns import PatternMatcher

    as_it_is = DownloadPipeline.unpack_many, PatternMatcher.add_includepaths
    paths = ["a", "a/b", "a/b/caf\udce9", "a/bc", "a/b/link", "x/first", "a/b/second", "y", "x/a/b", "a/b/\N{SNOWMAN}"]
    stream = trial_stream(paths)
    expected, every = read_trial(stream)
    install(Wanted())
    try:
        found, seen = read_trial(stream)
    finally:
        DownloadPipeline.unpack_many, PatternMatcher.add_includepaths = as_it_is
    if every != paths or not expected or found != expected or seen != [path for path, _ in expected]:
        raise Unusual


def trial_stream(paths: Any) -> bytes:
    from borg.helpers import msgpack
    from borg.item import Item

    more: Any = {"a/b/second": {"source": "x/first"}, "a/b/link": {"source": "y", "mode": stat.S_IFLNK}}
    every = ({"path": path, "mode": stat.S_IFREG, "mtime": 2**40, **more.get(path, {})} for path in paths)
    return b"".join(msgpack.packb(Item(**about).as_dict()) for about in every)


def read_trial(stream: bytes) -> Any:
    """Return the items that a command for `a/b` gets, and the paths of all that it has looked at."""
    from borg.archive import DownloadPipeline
    from borg.patterns import PatternMatcher

    trial, matcher = Trial(stream), PatternMatcher()
    matcher.add_includepaths(["pp:a/b"])
    seen = []

    def is_needed(item: Any) -> Any:
        seen.append(item.path)
        return matcher.match(item.path) or item.path == "x/first"

    items = DownloadPipeline(trial, trial).unpack_many(list(trial.stored), filter=is_needed)
    return [(item.path, item.as_dict()) for item in items], seen


# --- in the place of the engine's program -----------------------------------------------------------------------------


def main() -> None:
    program, *arguments = sys.argv[1:]
    if sys.path and Path(sys.path[0]).resolve() == Path(__file__).resolve().parent:
        sys.path[0] = str(Path(program).resolve().parent)  # as if Python had started the program itself
    try:
        import borg

        if not KNOWN_VERSIONS.fullmatch(borg.__version__):
            raise Unusual
        self_test()
        install(Wanted())
    except Exception:  # noqa: BLE001 - whatever is different, the engine runs as it is
        os.execv(program, [program, *arguments])
    sys.argv = [program, *arguments]
    runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main()
