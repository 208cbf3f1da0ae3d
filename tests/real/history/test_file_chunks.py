"""The content of files, read without a lock from real repositories: the right bytes or none, and nothing is written."""

import hashlib
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from holdfast.history.chunks.file_chunks import FileChunks, Part
from holdfast.history.entry import listed
from holdfast.history.errors import ChunkRouteFailed, ContentMoved, LinkLost
from holdfast.history.index import HistoryIndex
from holdfast.history.sqlite import SqliteStore
from tests.real.history.engine import ALL_ENGINES, RealRepository, new_repository, plant

LARGE = 20_000_000
LASTING_SECONDS = 30.0
SORTS_OF_WRITERS = 4


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=pytest.mark.campaign if name == "2.0" else ()) for name in ALL_ENGINES],
)
def repository(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> RealRepository:
    made = new_repository(request.param, tmp_path_factory.mktemp("engine"))
    plant(made.tree, random.Random(1), files=24)
    (made.tree / "large").write_bytes(random.Random(2).randbytes(LARGE))
    (made.tree / "zeros").write_bytes(bytes(3_000_000))
    made.create("one", "--compression", "zstd,1")
    return made


@pytest.fixture
def index(repository: RealRepository, tmp_path: Path) -> Iterator[HistoryIndex]:
    opened = HistoryIndex(SqliteStore.create(tmp_path / "history.db"))
    with repository.chunks() as chunks:
        for name in repository.ids:
            opened.ingest_chunks(repository.ids[name], chunks, series="daily")
    yield opened
    opened.close()


def parts_of(index: HistoryIndex, archive: str, path: bytes) -> list[Part]:
    found = index.file(archive, path)
    assert found is not None
    assert found.chunks is not None
    return [Part(chunk.id, chunk.size, 0, chunk.size) for chunk in found.chunks]


def files_in(tree: Path) -> list[Path]:
    return sorted(path for path in tree.rglob("*") if path.is_file() and not path.is_symlink())


def everything(folder: Path) -> dict[str, tuple[int, str]]:
    """Every file of a repository, with its modification time and a hash of its content."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_every_file_is_read_byte_for_byte_and_the_repository_stays_unchanged(
    repository: RealRepository, index: HistoryIndex
) -> None:
    place = Path(repository.location)
    before = everything(place), sorted(os.listdir(place))
    with repository.files() as chunks:
        for path in files_in(repository.tree):
            inside = b"tree/" + os.fsencode(path.relative_to(repository.tree))
            read = b"".join(chunks.read([part]) for part in parts_of(index, repository.ids["one"], inside))
            assert read == path.read_bytes(), path
        assert (everything(place), sorted(os.listdir(place))) == before, "no lock, no index, nothing was written"
    assert (everything(place), sorted(os.listdir(place))) == before


def test_an_archive_read_by_chunks_has_the_same_versions_as_its_listing(
    repository: RealRepository, index: HistoryIndex, tmp_path: Path
) -> None:
    by_listing = HistoryIndex(SqliteStore.create(tmp_path / "listing.db"))
    repository.ingest_listing(by_listing, "one")
    exact = index.entries(repository.ids["one"])
    shown = set(map(listed, exact) if repository.major == 1 else exact)
    assert shown == set(by_listing.entries(repository.ids["one"]))
    assert index.damage() == []
    by_listing.close()


def test_any_part_of_a_large_file_equals_what_the_engine_extracts(
    repository: RealRepository, index: HistoryIndex
) -> None:
    whole = repository.extract("one", "tree/large")
    parts = parts_of(index, repository.ids["one"], b"tree/large")
    assert len(parts) > 2
    rng = random.Random(3)
    with repository.files() as chunks:
        for number, part in enumerate(parts):
            at = sum(one.size for one in parts[:number])
            start = rng.randrange(part.size)
            end = rng.randrange(start, part.size) + 1
            assert chunks.read([part._replace(start=start, end=end)]) == whole[at + start : at + end]


def test_an_unreadable_index_is_left_for_the_engine_to_repair(repository: RealRepository, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(repository.location, copy)
    for file in [*copy.glob("index.*"), *copy.glob("index/*")]:
        file.write_bytes(b"not an index" + file.read_bytes()[12:])
    before = everything(copy)
    other = type(repository)(repository.program, repository.folder, str(copy))
    with pytest.raises(ChunkRouteFailed), other.files():
        pytest.fail("it came up")
    assert everything(copy) == before


def test_a_damaged_missing_or_mismatched_chunk_is_refused(
    repository: RealRepository, index: HistoryIndex, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(repository.location, copy)
    other = type(repository)(repository.program, repository.folder, str(copy))
    first, second = parts_of(index, repository.ids["one"], b"tree/large")[:2]
    with other.files() as chunks:
        assert len(chunks.read([first])) == first.size
        with pytest.raises(ChunkRouteFailed, match="another size"):
            chunks.read([first._replace(size=first.size + 1)])
        with pytest.raises(ChunkRouteFailed) as missing:
            chunks.read([first._replace(chunk=bytes(32))])
        assert not isinstance(missing.value, ContentMoved), "nobody is writing: there is nothing to wait for"
        for segment in (copy / ("data" if repository.major == 1 else "packs")).rglob("[0-9a-f]*"):
            if segment.is_file() and segment.stat().st_size > 1_000_000:
                damaged = bytearray(segment.read_bytes())
                for at in range(100, len(damaged), 10_000):
                    damaged[at] ^= 1
                segment.write_bytes(damaged)
        with pytest.raises(ChunkRouteFailed):
            chunks.read([second])


def test_a_killed_reader_reports_an_error_and_can_be_replaced(repository: RealRepository, index: HistoryIndex) -> None:
    parts = parts_of(index, repository.ids["one"], b"tree/large")
    with repository.files() as chunks:
        assert chunks._process is not None
        chunks._process.send_signal(signal.SIGKILL)
        with pytest.raises(ChunkRouteFailed):
            chunks.read(parts[:1])
        assert not chunks.is_usable
    with repository.files() as chunks:
        assert len(chunks.read(parts[:1])) == parts[0].size


def test_a_stopped_reader_leaves_no_process_behind(repository: RealRepository, index: HistoryIndex) -> None:
    with repository.files() as chunks:
        assert chunks._process is not None
        child = psutil.Process(chunks._process.pid)
        chunks.end()
        assert not child.is_running()
        with pytest.raises(ChunkRouteFailed):
            chunks.read(parts_of(index, repository.ids["one"], b"tree/large")[:1])


def test_borg_serve_reads_under_a_shared_lock_that_it_releases_and_writes_nothing(
    repository: RealRepository, index: HistoryIndex, tmp_path: Path
) -> None:
    if repository.major != 1:
        pytest.skip("engine 2 has no repositories at ssh://")
    shell = tmp_path / "shell"
    shell.write_text('#!/bin/sh\nshift\nexec "$@"\n')  # stands for ssh: drops the host and runs the rest here
    shell.chmod(0o755)
    there = {"BORG_RSH": str(shell), "BORG_REMOTE_PATH": str(repository.program)}
    location, place = f"ssh://somewhere{repository.location}", Path(repository.location)
    before, whole = everything(place), (repository.tree / "large").read_bytes()
    parts = parts_of(index, repository.ids["one"], b"tree/large")
    with FileChunks(repository.program, location, environment={**repository.environment, **there}) as chunks:
        assert list(place.glob("lock.*")), "nobody may write meanwhile"
        assert b"".join(chunks.read([part]) for part in parts) == whole
        assert chunks.read([part._replace(start=3, end=9) for part in parts[:2]]) == (
            whole[3:9] + whole[parts[0].size + 3 : parts[0].size + 9]
        )
        with pytest.raises(ChunkRouteFailed, match="another size"):
            chunks.read([parts[0]._replace(size=parts[0].size + 1)])
        with pytest.raises(ChunkRouteFailed):
            chunks.read([parts[0]._replace(chunk=bytes(32))])
        assert chunks.read(parts[:1]) == whole[: parts[0].size], "what is wrong with one chunk ends nothing"
        chunks.leave(seconds=60)
        assert everything(place) == before
        with pytest.raises(ChunkRouteFailed):
            chunks.read(parts[:1])
    with FileChunks(repository.program, location, environment={**repository.environment, **there}) as chunks:
        assert chunks._process is not None
        for serving in psutil.Process(chunks._process.pid).children(recursive=True):
            serving.kill()
        with pytest.raises(LinkLost):
            chunks.read(parts[:1])
        assert not chunks.is_usable


READS = int(os.environ.get("HOLDFAST_READS_BESIDE", "100000"))


@pytest.mark.parametrize("reads", [1, pytest.param(READS, marks=pytest.mark.campaign)])
@pytest.mark.parametrize(
    "engine", [pytest.param(name, marks=pytest.mark.campaign if name != "1.4" else ()) for name in ALL_ENGINES]
)
def test_reads_during_delete_compact_create_and_prune_return_the_right_bytes_or_none(
    tmp_path: Path, engine: str, reads: int
) -> None:
    rng = random.Random(reads)
    made = new_repository(engine, tmp_path)
    plant(made.tree, rng, files=60)
    for number in range(4):
        (made.tree / f"large{number}").write_bytes(rng.randbytes(3_000_000))
    made.create("day0")
    for number in range(2):
        (made.tree / f"large{number}").unlink()
    made.create("keep")
    wanted = {b"tree/" + os.fsencode(path.relative_to(made.tree)): path.read_bytes() for path in files_in(made.tree)}
    index = HistoryIndex(SqliteStore.create(tmp_path / "history.db"))
    with made.chunks() as chunks:
        index.ingest_chunks(made.ids["keep"], chunks, series="daily")
    files = {path: parts_of(index, made.ids["keep"], path)[:2] for path in wanted}
    index.close()
    with made.files() as chunks:
        _read_beside_writers(made, chunks, files, wanted, rng, reads)
    made.check()


def _read_beside_writers(
    made: RealRepository,
    chunks: FileChunks,
    files: dict[bytes, list[Part]],
    wanted: dict[bytes, bytes],
    rng: random.Random,
    reads: int,
) -> None:
    """Read until this many reads are done and every kind of writer has run at the same time."""
    done, paths = 0, sorted(files)
    for number, command in enumerate(made.writers(rng)):
        with subprocess.Popen(
            [made.program, *command], env=made.environment, cwd=made.folder, stderr=subprocess.PIPE
        ) as writer:
            since: float | None = None
            while writer.poll() is None or since is not None:
                path = rng.choice(paths)
                try:
                    read = chunks.read(files[path])
                except ContentMoved:
                    since = since or time.monotonic()
                    assert time.monotonic() - since < LASTING_SECONDS, "it was moved, and is not found again"
                    continue
                since = None
                assert read == wanted[path][: sum(part.size for part in files[path])]
                done += 1
            said = writer.stderr.read() if writer.stderr else b""
        assert writer.returncode in (0, 1), (command, said)
        if done >= reads and number >= SORTS_OF_WRITERS:
            print(f"{done} reads beside {number + 1} commands that write")
            return
