"""Test on a small repository whether the chunk route gives correct results with this engine program."""

import base64
import io
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from backup_engine.chunks import selftest_repository
from backup_engine.chunks.commands import specification
from backup_engine.environment import SEARCH_PATH
from holdfast.history.chunks.far import FarEngine, Texts, selftest_texts
from holdfast.history.chunks.file_chunks import FileChunks, Part
from holdfast.history.chunks.frames import SELFTEST_BYTES_MOST
from holdfast.history.chunks.helper_process import HelperProcess
from holdfast.history.chunks.ingest import ChunkSource
from holdfast.history.chunks.metadata_chunks import EngineChunks
from holdfast.history.entry import Entry, listed
from holdfast.history.errors import ChunkRouteFailed, HistoryError, SelfTestFailed
from holdfast.history.index import HistoryIndex
from holdfast.history.json_listing import listing_of
from holdfast.history.sqlite import SqliteStore

_NONSENSE = (ValueError, TypeError, LookupError, AttributeError)  # raised if a machine's answer is nonsense


class FarRepository(HelperProcess):
    """A small repository on another machine, made for the self-test and removed at the end."""

    def __init__(self, far: FarEngine, specification: Mapping[str, Any], *, environment: Mapping[str, str]) -> None:
        super().__init__(Path(far.program), "", environment=environment, far=far)
        self._opening = dict(specification)
        self.made: dict[str, Any] = {}

    def _texts(self) -> Texts:
        return selftest_texts()

    def _greet(self) -> None:
        self._send(self._opening)
        made = self._json(SELFTEST_BYTES_MOST)
        if not isinstance(made, dict):
            raise ChunkRouteFailed("the machine answers something else than a self-test repository")
        self.made = made


def self_test(program: Path, major: int = 1) -> None:
    """Back up a small tree twice and read both archives by both routes. Raise SelfTestFailed if the results differ."""
    with _failures(), tempfile.TemporaryDirectory(prefix="holdfast-selftest-") as folder:
        made = selftest_repository.made(Path(folder), specification(str(program), major))
        _compare(program, made, major, None)


def self_test_there(far: FarEngine, major: int) -> str:
    """Test an engine on another machine; return its program's fingerprint. Raise SelfTestFailed."""
    environment = {"PATH": SEARCH_PATH, "HOME": "~/", "LANG": "C.UTF-8"}
    with _failures(), FarRepository(far, specification(far.program, major), environment=environment) as there:
        _compare(Path(far.program), there.made, major, replace(far, tested=there.program_there))
        return there.program_there


@contextmanager
def _failures() -> Iterator[None]:
    try:
        yield
    except SelfTestFailed:
        raise
    except (HistoryError, selftest_repository.RepositoryFailed) as error:
        raise SelfTestFailed(str(error)) from error
    except (OSError, subprocess.SubprocessError, *_NONSENSE) as error:
        raise SelfTestFailed(f"{type(error).__name__}: {error}") from error


def _compare(program: Path, made: Mapping[str, Any], major: int, far: FarEngine | None) -> None:
    ids, place = made["ids"], made["repository"]
    with tempfile.TemporaryDirectory(prefix="holdfast-selftest-index-") as folder:
        index = HistoryIndex(SqliteStore.create(Path(folder) / "index.db"))
        opening: dict[str, Any] = {"environment": made["environment"], "major": major, "far": far}
        try:
            with EngineChunks(program, place, **opening) as chunks:
                _check_archives(index, made, chunks, major)
            with FileChunks(program, place, **opening) as files:
                for path, content in made["contents"].items():
                    _check_content(index, ids["second"], _bytes(path), _bytes(content), files)
        finally:
            index.close()


def compare_recorded(made: Mapping[str, Any], chunks: ChunkSource, major: int) -> None:
    """Compare a machine's listings of its repository with the chunks that it has sent. Raise SelfTestFailed."""
    with _failures(), tempfile.TemporaryDirectory(prefix="holdfast-selftest-index-") as folder:
        index = HistoryIndex(SqliteStore.create(Path(folder) / "index.db"))
        try:
            _check_archives(index, made, chunks, major)
        finally:
            index.close()


def _check_archives(index: HistoryIndex, made: Mapping[str, Any], chunks: ChunkSource, major: int) -> None:
    ids = made["ids"]
    if ids.keys() != {"first", "second"}:
        raise SelfTestFailed("archives that were just made are not listed")
    for archive in ("first", "second"):
        index.ingest_chunks(ids[archive], chunks, series="series")
        found = index.entries(ids[archive])
        as_listed = map(listed, found) if major == 1 else found
        _check_equal(archive, _listing(made["listings"][archive]), as_listed)
    if not index.changes(ids["first"], ids["second"]).changes:
        raise SelfTestFailed("a change between two archives was not seen")


def _listing(text: str) -> list[Entry]:
    listing = listing_of(io.BytesIO(_bytes(text)))
    return [listing.parse(record) for record in chain.from_iterable(listing.batches())]


def _check_content(index: HistoryIndex, archive: str, path: bytes, content: bytes, files: FileChunks) -> None:
    found = index.file(archive, path)
    if found is None or found.chunks is None:
        raise SelfTestFailed(f"the chunks of {path!r} are not known")
    parts = [Part(chunk.id, chunk.size, 0, chunk.size) for chunk in found.chunks]
    if files.read(parts) != content:
        raise SelfTestFailed(f"the content of {path!r} differs")


def _check_equal(archive: str, expected: Iterable[Entry], found: Iterable[Entry]) -> None:
    by_path, other = ({entry.path: entry for entry in entries} for entries in (expected, found))
    different = [path for path in by_path.keys() | other.keys() if by_path.get(path) != other.get(path)]
    if different:
        raise SelfTestFailed(f"{len(different)} files of the {archive} archive differ, {min(different)!r} among them")


def _bytes(text: str) -> bytes:
    return base64.b64decode(text)
