"""Run an engine's command for a few paths so that it unpacks only their metadata. Runs under the engine's own Python in
place of the engine's program: `python narrowed.py PROGRAM ARGUMENT …`.

An engine that restores one file out of a million unpacks every item of the archive, twice, and creates an object for
each. With this program, the engine still fetches, decrypts and authenticates every metadata chunk in its usual order;
but the items are then only counted, and only those that contain the bytes of a wanted path are unpacked and compared.
The engine's own command receives these items as if the archive contained no others, so it treats each as usual. If
wanted items are hard links (engine 1), the files that they refer to are passed along.

This program is self-contained (it imports nothing of Holdfast) and replaces two functions of the engine. In case of any
doubt (an unknown version, a different form of these functions, patterns that are not paths, metadata beyond the limits)
the engine's program runs unchanged.
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
"""Limit for an archive's wanted items in packed form: about 80,000 files. Writing more costs more than is saved."""
ITEM_BYTES_MOST = 16 * 1024 * 1024
NEEDLES_MOST = 16
"""Maximum number of paths to search for individually; with more, their common prefix is searched for."""
SANITIZED = (b"//", b"/./")
"""Sequences that engine 2 removes from paths when it reads them: items that contain one are unpacked to be compared."""

_TRIAL_CHUNK_BYTES = 61


class Unusual(Exception):
    """The engine must read everything itself."""


class Wanted:
    """The paths of the command, and the items of an archive below them."""

    def __init__(self) -> None:
        self.matchers: Any = []
        self._ids: Any = None
        self._packed: Any = None

    def narrowed(self, ids: Any, fetch: Any) -> Any:
        """Return the packed items of an archive that the command needs, given the function that fetches its metadata.

        In case of doubt, return all of the metadata.
        """
        if ids != self._ids:
            self._ids, self._packed = ids, None
            try:
                self._packed = self._read(fetch)
            except Exception:  # noqa: BLE001 - the engine reports the error itself
                self._packed = None
        return fetch() if self._packed is None else iter(self._packed)

    def _read(self, fetch: Any) -> Any:
        roots = roots_of(self.matchers)
        packed, sources = scanned(fetch(), roots, frozenset())
        if sources:
            packed, _ = scanned(fetch(), roots, frozenset(sources))
        return packed


def roots_of(matchers: Any) -> Any:
    """The paths given to a command. Raise Unusual if they are patterns, or if the command wants more than these."""
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
    """Call `scan`. After any error, read the stream to its end, because a server sends everything it was asked for."""
    try:
        return scan(stream, roots, sources)
    except Exception:
        for _ in stream:
            pass
        raise


def scan(stream: Any, roots: Any, sources: Any) -> Any:
    """Return packed items that are below `roots` or in `sources`, and the files that their hard links refer to."""
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
    """Byte strings, at least one of which occurs in every packed item with one of these paths."""
    found = sorted(path.encode("utf-8", "surrogateescape") for path in paths)
    return found if len(found) <= NEEDLES_MOST else [os.path.commonprefix(found)]  # noqa: RUF071 - of bytes, not of names


def found_items(stream: Any, wanted: Any) -> Any:
    """Yield, per chunk, the items that end in it and contain one of these byte strings, each both packed and
    unpacked.
    """
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
    """Yield the end of each item, counted from the start of the stream."""
    skip, tell = counter.skip, counter.tell
    while True:
        try:
            skip()
        except nothing_more:
            return
        yield tell()


def nearest(ahead: Any) -> Any:
    return min((at for at in ahead if at >= 0), default=sys.maxsize)


# --- patches of the engine's code -------------------------------------------------------------------------------------


def install(wanted: Wanted) -> None:
    """Make the engine pass the paths of its command to `wanted` and read items through it."""
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
    """Stands in for a repository, a key and a parser: chunks are stored as they are."""

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
    """Read a small archive with the original and with the modified engine. Raise Unusual if the items differ."""
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
    """Return the items that a command for `a/b` receives, and the paths of all items that it examined."""
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


# --- run in place of the engine's program -----------------------------------------------------------------------------


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
    except Exception:  # noqa: BLE001 - whatever differs, the engine runs unchanged
        os.execv(program, [program, *arguments])
    sys.argv = [program, *arguments]
    runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main()
