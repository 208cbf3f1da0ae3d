"""Does the chunk route tell the truth with this engine program? Tried on a small repository of its own."""

import os
import secrets
import subprocess
import tempfile
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

from backup_engine.borg2.init import ENCRYPTION_MODES
from backup_engine.borg2.list_files import ADDED_KEYS
from holdfast.archives.history.chunks.client import EngineChunks, FileChunks, Part
from holdfast.archives.history.entry import Entry, listed
from holdfast.archives.history.errors import HistoryError, SelfTestFailed
from holdfast.archives.history.index import HistoryIndex
from holdfast.archives.history.json_listing import JsonListing
from holdfast.archives.history.listing import ENVIRONMENT, Listing, listing_arguments
from holdfast.archives.history.sqlite import SqliteStore

_COMMAND_SECONDS = 120
_MANY_FILES = 500  # with long names, so that their items fill several metadata chunks


class _Commands:
    """The engine's commands, as its major version 1 takes them."""

    major = 1

    def __init__(self, program: Path, folder: Path) -> None:
        self.program = program
        self.folder = folder
        self.repository = folder / "repository"
        self.environment = _environment(folder)

    def make(self) -> None:
        self.run("init", "--encryption", "repokey-blake2", str(self.repository))

    def back_up(self, archive: str) -> None:
        self.run("create", f"{self.repository}::{archive}", "tree")

    def archive_ids(self) -> bytes:
        return self.run("list", "--format", "{archive} {id}{NL}", str(self.repository))

    def listing(self, archive: str) -> tuple[str, ...]:
        return listing_arguments(str(self.repository), archive)

    def run(self, *arguments: str) -> bytes:
        done = subprocess.run(
            [self.program, *arguments],
            env=self.environment,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_COMMAND_SECONDS,
            check=False,
        )
        if done.returncode != 0:
            said = done.stderr.decode("utf-8", "replace").strip()[-400:]
            raise SelfTestFailed(f"the engine's {arguments[0]} ended with code {done.returncode}: {said}")
        return done.stdout


class _Commands2(_Commands):
    major = 2

    def make(self) -> None:
        mode, *options = ENCRYPTION_MODES["aes256-ocb"]
        self.run("repo-create", *self._here, f"--encryption={mode}", *options)

    def back_up(self, archive: str) -> None:
        self.run("create", *self._here, archive, "tree")

    def archive_ids(self) -> bytes:
        return self.run("repo-list", *self._here, "--format", "{archive} {id}{NL}")

    def listing(self, archive: str) -> tuple[str, ...]:
        return "list", *self._here, "--json-lines", f"--format={ADDED_KEYS}", archive

    @property
    def _here(self) -> tuple[str, ...]:
        return "-r", str(self.repository)


def self_test(program: Path, major: int = 1) -> None:
    """Back up a small tree twice and read both archives both ways. Raise SelfTestFailed when the answers differ."""
    with tempfile.TemporaryDirectory(prefix="holdfast-selftest-") as folder:
        try:
            _compare((_Commands if major == 1 else _Commands2)(program, Path(folder)))
        except (HistoryError, OSError, subprocess.SubprocessError) as error:
            raise SelfTestFailed(f"{type(error).__name__}: {error}") from error


def _compare(engine: _Commands) -> None:
    tree, place = engine.folder / "tree", str(engine.repository)
    _plant(tree)
    engine.make()
    engine.back_up("first")
    _change(tree)
    engine.back_up("second")
    ids = _archive_ids(engine)
    index = HistoryIndex(SqliteStore.create(engine.folder / "index.db"))
    try:
        with EngineChunks(engine.program, place, environment=engine.environment, major=engine.major) as chunks:
            for archive in ("first", "second"):
                engine_id = ids[archive]
                index.ingest_chunks(engine_id, chunks, series="series")
                found = index.entries(engine_id)
                as_listed = map(listed, found) if engine.major == 1 else found
                _check_equal(archive, _listing(engine, archive), as_listed)
        if not index.changes(ids["first"], ids["second"]).changes:
            raise SelfTestFailed("a change between two archives was not seen")
        with FileChunks(engine.program, place, environment=engine.environment, major=engine.major) as files:
            for path in (path for path in tree.rglob("*") if path.is_file() and not path.is_symlink()):
                _check_content(index, ids["second"], path, b"tree/" + os.fsencode(path.relative_to(tree)), files)
    finally:
        index.close()


def _environment(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("BORG_", "PYTHON"))}
    return {
        **kept,
        **ENVIRONMENT,
        "BORG_BASE_DIR": str(folder / "base"),
        "BORG_PASSPHRASE": secrets.token_hex(16),
        "BORG_SELFTEST": "disabled",
    }


def _plant(tree: Path) -> None:
    """Make one of everything that an archive can hold and a user can make."""
    odd = tree / "odd"
    odd.mkdir(parents=True)
    for name in (b"plain", b"caf\xe9", b"new\nline", b"tab\t'\"\\", "日本語".encode()):
        (odd / os.fsdecode(name)).write_bytes(b"content of " + name)
    (odd / "empty").touch()
    os.utime(odd / "empty", ns=(0, 4_102_444_800_123_456_789))
    os.utime(odd / "plain", ns=(0, 1_577_836_800_123_456_500))
    (odd / "plain").chmod(0o4750)
    os.link(odd / "plain", odd / "second-name")
    (odd / "link").symlink_to(os.fsdecode(b"caf\xe9"))
    os.mkfifo(odd / "fifo")
    many = tree / "many"
    many.mkdir()
    for number in range(_MANY_FILES):
        (many / f"{'long-name-' * 18}{number:04}").write_bytes(b"%d" % number)


def _change(tree: Path) -> None:
    touched = tree / "many" / f"{'long-name-' * 18}{_MANY_FILES // 2:04}"
    before = touched.stat()
    touched.write_bytes(b"x" * before.st_size)
    (tree / "many" / f"{'long-name-' * 18}{_MANY_FILES // 3:04}").unlink()
    (tree / "odd" / "new").touch()


def _archive_ids(engine: _Commands) -> dict[str, str]:
    found = dict(line.split() for line in engine.archive_ids().decode().splitlines())
    if found.keys() != {"first", "second"}:
        raise SelfTestFailed("archives that were just made are not listed")
    return found


def _listing(engine: _Commands, archive: str) -> list[Entry]:
    command = [str(engine.program), *engine.listing(archive)]
    with subprocess.Popen(command, env=engine.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        kind = Listing if engine.major == 1 else JsonListing
        listing = kind(process.stdout, lambda: process.wait(_COMMAND_SECONDS))
        return [listing.parse(record) for record in chain.from_iterable(listing.batches())]


def _check_content(index: HistoryIndex, archive: str, path: Path, inside: bytes, files: FileChunks) -> None:
    found = index.file(archive, inside)
    if found is None or found.chunks is None:
        raise SelfTestFailed(f"the chunks of {inside!r} are not known")
    parts = [Part(chunk.id, chunk.size, 0, chunk.size) for chunk in found.chunks]
    if files.read(parts) != path.read_bytes():
        raise SelfTestFailed(f"the content of {inside!r} differs")


def _check_equal(archive: str, expected: Iterable[Entry], found: Iterable[Entry]) -> None:
    by_path, other = ({entry.path: entry for entry in entries} for entries in (expected, found))
    different = [path for path in by_path.keys() | other.keys() if by_path.get(path) != other.get(path)]
    if different:
        raise SelfTestFailed(f"{len(different)} files of the {archive} archive differ, {min(different)!r} among them")
