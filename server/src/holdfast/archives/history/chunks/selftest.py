"""Does the chunk route tell the truth with this engine program? Tried on a small repository of its own."""

import base64
import io
import secrets
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from backup_engine.borg2.init import ENCRYPTION_MODES
from backup_engine.borg2.list_files import ADDED_KEYS
from backup_engine.environment import SEARCH_PATH
from holdfast.archives.history.chunks import trial
from holdfast.archives.history.chunks.client import EngineChunks, FarTrial, FileChunks, Part
from holdfast.archives.history.chunks.far import FarEngine
from holdfast.archives.history.entry import Entry, listed
from holdfast.archives.history.errors import HistoryError, SelfTestFailed
from holdfast.archives.history.index import HistoryIndex
from holdfast.archives.history.json_listing import listing_of
from holdfast.archives.history.listing import ENVIRONMENT, listing_arguments
from holdfast.archives.history.sqlite import SqliteStore

_NONSENSE = (ValueError, TypeError, LookupError, AttributeError)  # what a machine may answer in place of a trial
REPOSITORY, ARCHIVE = "@repository", "@archive"


def _commands(major: int) -> Mapping[str, tuple[str, ...]]:
    """The engine's commands, as its major version takes them."""
    if major == 1:
        return {
            "make": ("init", "--encryption", "repokey-blake2", REPOSITORY),
            "back_up": ("create", f"{REPOSITORY}::{ARCHIVE}", "tree"),
            "archive_ids": ("list", "--format", "{archive} {id}{NL}", REPOSITORY),
            "listing": listing_arguments(REPOSITORY, ARCHIVE),
        }
    mode, *options = ENCRYPTION_MODES["aes256-ocb"]
    here = ("-r", REPOSITORY)
    return {
        "make": ("repo-create", *here, f"--encryption={mode}", *options),
        "back_up": ("create", *here, ARCHIVE, "tree"),
        "archive_ids": ("repo-list", *here, "--format", "{archive} {id}{NL}"),
        "listing": ("list", *here, "--json-lines", f"--format={ADDED_KEYS}", ARCHIVE),
    }


def _specification(program: str, major: int) -> dict[str, Any]:
    return {
        "program": program,
        "commands": _commands(major),
        "environment": {**ENVIRONMENT, "BORG_PASSPHRASE": secrets.token_hex(16), "BORG_SELFTEST": "disabled"},
    }


def self_test(program: Path, major: int = 1) -> None:
    """Back up a small tree twice and read both archives both ways. Raise SelfTestFailed when the answers differ."""
    with _failures(), tempfile.TemporaryDirectory(prefix="holdfast-selftest-") as folder:
        made = trial.made(Path(folder), _specification(str(program), major))
        _compare(program, made, major, None)


def self_test_there(far: FarEngine, major: int) -> str:
    """The same with an engine on another machine; return which program it was. Raise SelfTestFailed."""
    environment = {"PATH": SEARCH_PATH, "HOME": "~/", "LANG": "C.UTF-8"}
    with _failures(), FarTrial(far, _specification(far.program, major), environment=environment) as there:
        _compare(Path(far.program), there.made, major, replace(far, tested=there.program_there))
        return there.program_there


@contextmanager
def _failures() -> Iterator[None]:
    try:
        yield
    except SelfTestFailed:
        raise
    except (HistoryError, trial.TrialFailed) as error:
        raise SelfTestFailed(str(error)) from error
    except (OSError, subprocess.SubprocessError, *_NONSENSE) as error:
        raise SelfTestFailed(f"{type(error).__name__}: {error}") from error


def _compare(program: Path, made: Mapping[str, Any], major: int, far: FarEngine | None) -> None:
    ids, place = made["ids"], made["repository"]
    if ids.keys() != {"first", "second"}:
        raise SelfTestFailed("archives that were just made are not listed")
    with tempfile.TemporaryDirectory(prefix="holdfast-selftest-index-") as folder:
        index = HistoryIndex(SqliteStore.create(Path(folder) / "index.db"))
        opening: dict[str, Any] = {"environment": made["environment"], "major": major, "far": far}
        try:
            with EngineChunks(program, place, **opening) as chunks:
                for archive in ("first", "second"):
                    index.ingest_chunks(ids[archive], chunks, series="series")
                    found = index.entries(ids[archive])
                    as_listed = map(listed, found) if major == 1 else found
                    _check_equal(archive, _listing(made["listings"][archive]), as_listed)
            if not index.changes(ids["first"], ids["second"]).changes:
                raise SelfTestFailed("a change between two archives was not seen")
            with FileChunks(program, place, **opening) as files:
                for path, content in made["contents"].items():
                    _check_content(index, ids["second"], _bytes(path), _bytes(content), files)
        finally:
            index.close()


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
