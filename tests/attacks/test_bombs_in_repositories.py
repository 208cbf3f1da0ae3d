"""A small repository must not take much memory, neither in the helper that unpacks it nor in the service that
indexes it.
"""

import json
from functools import cache
from pathlib import Path

import pytest

from holdfast.history.chunks.file_chunks import FileChunks, Part
from holdfast.history.chunks.metadata_chunks import EngineChunks
from holdfast.history.errors import ArchiveTooLarge, ChunkRouteFailed
from tests.support.engines import ENGINE_2, ENGINES
from tests.support.hostile import BOMBS, HostileArchive, HostileRepository, hostile_repository, item, item_2
from tests.support.peak import MIB, growths_of, peak_of

BOUND = 64 * MIB
SIZES = {"zstd": 1200, "obfuscated": 1200, "lz4": 300, "zlib": 150, "lzma": 100}  # MiB unpacked
REFUSALS = ("ArchiveTooLarge", "ArchiveUnreadable", "GarbledItems", "ItemTooLarge")

INDEXED = """
import os
from pathlib import Path
from holdfast.history.chunks.metadata_chunks import EngineChunks
from holdfast.history.index import HistoryIndex
from holdfast.history.sqlite import SqliteStore
program, repository, ids, folder, environment = sys.argv[1:]
def indexed(engine_id):
    index = HistoryIndex(SqliteStore.create(Path(folder) / f"{engine_id}.db"))
    with EngineChunks(Path(program), repository, environment=json.loads(environment), lock_wait=60) as chunks:
        return index.ingest_chunks(engine_id, chunks, series="series").entries
for engine_id in json.loads(ids):
    if (child := os.fork()) == 0:
        measured(lambda: indexed(engine_id))
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(child, 0)
"""


def deep(number: int) -> bytes:
    return b"/".join([b"d%d" % number, *[b"x"] * 500, b"file"])


@cache
def harmful() -> dict[str, list[bytes] | None]:
    """Created when they are needed: every test process loads this module, but only one runs its tests."""
    return {
        "an item of empty maps": [item(xattrs=[{}] * 60_000) + item(b"other", chunks=[{}] * (3 * MIB))],
        "a list of chunks that holds lists": [item(chunks=[[[]] * 1000 for _ in range(3_000)])],
        "an item of many megabytes": [item(acl_access=b"\x00" * (3 * MIB)), *[b"\x00" * (3 * MIB)] * 4],
        "a file of many chunks": [
            item(size=180_000, chunks=[[b"%032d" % number, 1, 1] for number in range(180_000)])[at : at + 3 * MIB]
            for at in range(0, 9 * MIB, 3 * MIB)
        ],
        "deep paths": [item(deep(number)) for number in range(200)],
        "items of one byte": [b"\x80" * (2 * MIB)],
        "a path of a megabyte": [item(b"x/" * (MIB // 2))],
        "a billion files of one chunk": None,
        "a hundred million files of few chunks": None,
        "deep nesting": [item() + b"\x81\xa4path" + b"\x91" * 800_000],
        "a string that claims two gigabytes": [b"\x81\xa4path\xdb\x7f\xff\xff\xff" + b"x" * 1000],
        "a map that claims four billion entries": [b"\xdf\xff\xff\xff\xff" + b"\x00" * 1000],
    }


@pytest.fixture(
    scope="module",
    params=[pytest.param(series, marks=[] if series == "1.4" else pytest.mark.campaign) for series in sorted(ENGINES)],
)
def repository(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> HostileRepository:
    return hostile_repository(ENGINES[request.param], tmp_path_factory.mktemp("hostile"))


@pytest.fixture(scope="module")
def archives(repository: HostileRepository) -> dict[str, str]:
    """The engine's ids of a good archive and all the others, by name."""
    many = item(b"file" * 50) * 1000
    return repository.write(
        HostileArchive("good", [item(b"a") + item(b"b")]),
        *(HostileArchive(name, [bomb(SIZES[name] * MIB)]) for name, bomb in BOMBS.items()),
        *(HostileArchive(name, chunks) for name, chunks in harmful().items() if chunks is not None),
        HostileArchive("a billion files of one chunk", [many], items=[0] * 200_000),
        HostileArchive(
            "a hundred million files of few chunks",
            [many + item(b"%d" % number) for number in range(100)],
            items=[*range(100)] * 4,
        ),
        HostileArchive("a record of lists", [item()], metadata={"cmdline": [[]] * (2 * MIB)}),
    )


def test_a_helper_refuses_chunks_that_unpack_to_far_more_than_is_stored(
    repository: HostileRepository, archives: dict[str, str]
) -> None:
    with EngineChunks(repository.program, str(repository.location), environment=repository.environment) as chunks:
        assert chunks._process is not None
        before = peak_of(chunks._process.pid)
        for name in BOMBS:
            with pytest.raises(ArchiveTooLarge):
                list(chunks.chunks(chunks.chunk_ids(archives[name])))
        assert [len(data) for data in chunks.chunks(chunks.chunk_ids(archives["good"]))] == [len(item(b"a") * 2)]
        assert peak_of(chunks._process.pid) - before < BOUND


def test_a_helper_cannot_allocate_more_memory_than_its_limit(
    repository: HostileRepository, archives: dict[str, str]
) -> None:
    """How the engine reads an archive's record cannot be limited from outside, but the process can."""
    with EngineChunks(repository.program, str(repository.location), environment=repository.environment) as chunks:
        assert chunks._process is not None
        before = peak_of(chunks._process.pid)
        with pytest.raises(ArchiveTooLarge):
            chunks.chunk_ids(archives["a record of lists"])
        assert chunks.chunk_ids(archives["good"])
        assert peak_of(chunks._process.pid) - before < 2 * BOUND


def test_a_reader_of_files_refuses_the_same_chunks(repository: HostileRepository, archives: dict[str, str]) -> None:
    place = repository.program, str(repository.location)
    with EngineChunks(*place, environment=repository.environment) as chunks:
        ids = {name: chunks.chunk_ids(archives[name])[0] for name in (*BOMBS, "good")}
    with FileChunks(*place, environment=repository.environment) as files:
        assert files._process is not None
        before = peak_of(files._process.pid)
        for name in BOMBS:
            with pytest.raises(ArchiveTooLarge):
                files.read([Part(ids[name], 1000, 0, 1000)])
        size = len(item(b"a") * 2)
        assert len(files.read([Part(ids["good"], size, 0, size)])) == size
        assert peak_of(files._process.pid) - before < BOUND


@pytest.mark.campaign
@pytest.mark.skipif(ENGINE_2 is None, reason="needs engine 2")
def test_the_helper_of_engine_2_refuses_chunks_that_are_too_large(tmp_path: Path) -> None:
    assert ENGINE_2 is not None
    made = hostile_repository(ENGINE_2, tmp_path, 2)
    good = item_2("a") + item_2("b")
    ids = made.write(HostileArchive("good", [good]), HostileArchive("bomb", [bytes(12 * MIB)]))
    place = made.program, str(made.location)
    with EngineChunks(*place, environment=made.environment, major=2) as chunks:
        assert list(chunks.chunks(chunks.chunk_ids(ids["good"]))) == [good]
        (bomb,) = chunks.chunk_ids(ids["bomb"])
        with pytest.raises(ArchiveTooLarge):
            list(chunks.chunks([bomb]))
    with (
        FileChunks(*place, environment=made.environment, major=2) as files,
        pytest.raises(ChunkRouteFailed, match="ro_type"),  # metadata is never returned as the content of a file
    ):
        files.read([Part(bomb, 12 * MIB, 0, 1000)])


def test_the_service_takes_little_memory_for_hostile_archives(
    repository: HostileRepository, archives: dict[str, str], tmp_path: Path
) -> None:
    """Each archive is indexed in its own process, so that the memory one took does not count for the next."""
    environment = json.dumps(repository.environment)
    ids = json.dumps([archives[name] for name in harmful()])
    measured = growths_of(INDEXED, str(repository.program), str(repository.location), ids, str(tmp_path), environment)
    for name, (growth, result) in zip(harmful(), measured, strict=True):
        assert growth < BOUND, (name, result)
        assert isinstance(result, int) or result.split(":")[0] in REFUSALS, name
