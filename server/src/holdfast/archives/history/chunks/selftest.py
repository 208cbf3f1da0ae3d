"""Does the chunk route tell the truth with this engine program? Tried on a small repository of its own."""

import os
import secrets
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path

from holdfast.archives.history.chunks.client import EngineChunks, FileChunks, Part
from holdfast.archives.history.entry import Entry, listed
from holdfast.archives.history.errors import HistoryError, SelfTestFailed
from holdfast.archives.history.index import HistoryIndex
from holdfast.archives.history.listing import ENVIRONMENT, Listing, listing_arguments
from holdfast.archives.history.sqlite import SqliteStore

_COMMAND_SECONDS = 120
_MANY_FILES = 500  # with long names, so that their items fill several metadata chunks


def self_test(program: Path) -> None:
    """Back up a small tree twice and read both archives both ways. Raise SelfTestFailed when the answers differ."""
    with tempfile.TemporaryDirectory(prefix="holdfast-selftest-") as folder:
        try:
            _compare(program, Path(folder))
        except (HistoryError, OSError, subprocess.SubprocessError) as error:
            raise SelfTestFailed(f"{type(error).__name__}: {error}") from error


def _compare(program: Path, folder: Path) -> None:
    tree, repository = folder / "tree", folder / "repository"
    environment = _environment(folder)
    _plant(tree)
    _run(program, environment, folder, "init", "--encryption", "repokey-blake2", str(repository))
    _run(program, environment, folder, "create", f"{repository}::first", "tree")
    _change(tree)
    _run(program, environment, folder, "create", f"{repository}::second", "tree")
    ids = _archive_ids(program, environment, repository)
    index = HistoryIndex(SqliteStore.create(folder / "index.db"))
    try:
        with EngineChunks(program, str(repository), environment=environment) as chunks:
            for archive in ("first", "second"):
                engine_id = ids[archive]
                index.ingest_chunks(engine_id, chunks, series="series")
                shown = _listing(program, environment, repository, archive)
                _check_equal(archive, shown, (listed(entry) for entry in index.entries(engine_id)))
        if not index.changes(ids["first"], ids["second"]).changes:
            raise SelfTestFailed("a change between two archives was not seen")
        with FileChunks(program, str(repository), environment=environment) as files:
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


def _run(program: Path, environment: Mapping[str, str], folder: Path, *arguments: str) -> bytes:
    done = subprocess.run(
        [program, *arguments],
        env=environment,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_COMMAND_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip()[-400:]
        raise SelfTestFailed(f"the engine's {arguments[0]} ended with code {done.returncode}: {said}")
    return done.stdout


def _archive_ids(program: Path, environment: Mapping[str, str], repository: Path) -> dict[str, str]:
    output = _run(program, environment, repository.parent, "list", "--format", "{archive} {id}{NL}", str(repository))
    found = dict(line.split() for line in output.decode().splitlines())
    if found.keys() != {"first", "second"}:
        raise SelfTestFailed("archives that were just made are not listed")
    return found


def _listing(program: Path, environment: Mapping[str, str], repository: Path, archive: str) -> list[Entry]:
    command = [str(program), *listing_arguments(str(repository), archive)]
    with subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        listing = Listing(process.stdout, lambda: process.wait(_COMMAND_SECONDS))
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
