"""An archive listed from its own metadata, and by the engine: the same entries in the same order, and therefore the
same samples.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from backup_engine.borg1.list_files import RECORD_FORMAT
from backup_engine.borg2.list_files import ADDED_KEYS
from holdfast.history.chunks.archive_chunks import ArchiveChunks
from holdfast.history.errors import ArchiveGone, ChunkRouteFailed, HistoryError
from holdfast.maintenance.file_records import FileRecord, choose, read_records
from holdfast.reading import archive_verification
from holdfast.reading.archive_verification import OpenedArchive
from tests.real.history.engine import ALL_ENGINES, RealRepository, new_repository, plant


@pytest.fixture(scope="module", params=ALL_ENGINES)
def planted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> RealRepository:
    """A repository with one archive, which the tests only read."""
    rng = random.Random(7)
    repository = new_repository(request.param, tmp_path_factory.mktemp("planted"))
    plant(repository.tree, rng, files=400)
    (repository.tree / "large").write_bytes(rng.randbytes(11_000_000))
    (repository.tree / "zeros").write_bytes(bytes(9_000_000))
    repository.create("archive")
    return repository


@contextmanager
def opened(repository: RealRepository) -> Iterator[tuple[ArchiveChunks, OpenedArchive]]:
    with ArchiveChunks(
        repository.program, repository.location, environment=repository.environment, major=repository.major
    ) as chunks:
        yield chunks, OpenedArchive(chunks, repository.ids["archive"])


def listed_by_engine(repository: RealRepository) -> list[FileRecord]:
    if repository.major == 2:
        output = repository.run("list", "--json-lines", f"--format={ADDED_KEYS}", "archive")
    else:
        output = repository.run("list", f"--format={RECORD_FORMAT}", f"{repository.location}::archive")
    spooled = repository.folder / "listing"
    spooled.write_bytes(output)
    return list(read_records(spooled))


def shown(record: FileRecord) -> tuple[str, int, str]:
    return record.mode[0], record.size if record.is_file else 0, record.path


def test_chunks_and_the_engine_list_the_same_entries_and_lead_to_the_same_samples(planted: RealRepository) -> None:
    by_engine = listed_by_engine(planted)

    with opened(planted) as (_, archive):
        by_chunks = list(archive.listed())

    assert [shown(record) for record in by_chunks] == [shown(record) for record in by_engine]
    for seed in ("one", "another"):
        assert [shown(record) for record in choose(by_chunks, 20, seed)] == [
            shown(record) for record in choose(by_engine, 20, seed)
        ]


def test_every_file_is_proven_once_and_its_content_equals_the_tree(planted: RealRepository) -> None:
    with opened(planted) as (_, archive):
        files = [record for record in archive.listed() if record.is_file]
        read: list[int] = []
        proven = list(archive.proven(files, lambda _file, size: read.append(size)))

        assert proven == files
        assert sum(read) == sum(record.size for record in files)
        assert len(read) > 2, "progress is reported between the chunks of a large file, too"
        for record in files:
            assert (
                b"".join(archive.content(record))
                == (planted.folder / record.exact.decode("utf-8", "surrogateescape")).read_bytes()
            )


def test_long_chunk_lists_are_not_kept(planted: RealRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_verification, "KEPT_BYTES", 60)  # a chunk takes 44; the large file has at least two

    with opened(planted) as (_, archive):
        kept = {record.path: record.chunks for record in archive.listed(keeping=True) if record.is_file}

    assert kept.pop("tree/large") is None
    kept.pop("tree/zeros")
    assert None not in kept.values()


def test_missing_chunks_chunks_of_another_size_and_deleted_archives_are_refused(planted: RealRepository) -> None:
    with opened(planted) as (chunks, archive):
        (large,) = [record for record in archive.listed() if record.path == "tree/large"]
        first = next(iter(archive_verification._chunks_of(large)))
        chunks.prove([first])

        for wrong in (first._replace(size=first.size - 1), first._replace(id=bytes(32))):
            with pytest.raises(HistoryError):
                chunks.prove([wrong])
        with pytest.raises(ArchiveGone):
            list(chunks.items("ab" * 32))


def test_an_abandoned_helper_ends(planted: RealRepository) -> None:
    with opened(planted) as (chunks, archive):
        list(archive.listed())
        chunks.is_abandoned = lambda: True
        with pytest.raises(ChunkRouteFailed, match="nobody waits"):
            chunks._frame(b"J", 100)  # a response to a request that was never sent
        assert not chunks.is_usable
