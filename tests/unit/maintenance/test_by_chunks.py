"""Which files of an archive a check by chunks reads, and when it leaves the check to the engine."""

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from backup_jobs.host import Cancelled
from holdfast.maintenance.by_chunks import ArchivedFile, CheckScope, NotByChunks, OnRead, OpenedArchive, read_by_chunks
from holdfast.maintenance.file_records import choose
from holdfast.repositories.work import RepositoryWork


def entry(position: int, path: str, content: bytes = b"", mode: str = "-", *, is_kept: bool = True) -> ArchivedFile:
    return ArchivedFile(mode, len(content), path, position, path.encode(), content if is_kept else None)


@dataclass
class Archive:
    """An archive in memory: the chunks of a file are its content."""

    entries: list[ArchivedFile]
    keeps: int = 1000
    read: list[str] = field(default_factory=list)
    share_read: float = 0.5

    def listed(self, *, keeping: bool = False) -> Iterator[ArchivedFile]:
        for one in self.entries:
            is_kept = not keeping or one.size <= self.keeps
            yield entry(one.position, one.path, one.chunks or b"", one.mode, is_kept=is_kept)

    def proven(self, files: Iterable[ArchivedFile], on_read: OnRead) -> Iterator[ArchivedFile]:
        for file in files:
            assert file.chunks is not None
            on_read(file, file.size)
            if b"damaged" in file.chunks:
                raise NotByChunks("a chunk is damaged")
            self.read.append(file.path)
            yield file

    def content(self, file: ArchivedFile) -> Iterator[bytes]:
        yield file.chunks or b""

    @contextmanager
    def opened(self, _work: RepositoryWork, _archive_id: str) -> Iterator[OpenedArchive]:
        yield self


@dataclass
class Surroundings:
    is_cancelled: bool = False
    told: list[dict[str, Any]] = field(default_factory=list)

    @property
    def context(self) -> "Surroundings":
        return self

    def require_going_on(self) -> None:
        if self.is_cancelled:
            raise Cancelled

    def report(self, **progress: Any) -> None:
        self.told.append(progress)


def found(archive: Archive, wanted: CheckScope, surroundings: Surroundings | None = None) -> dict[str, Any]:
    result = dict(read_by_chunks(cast("RepositoryWork", surroundings or Surroundings()), archive, "id", wanted))
    result.pop("at", None)
    return result


TREE = [
    entry(0, "a", mode="d"),
    entry(1, "a/one", b"1"),
    entry(2, "a/two", b"22"),
    entry(3, "a/again", mode="h"),
    entry(4, "ab", b"333"),
    entry(5, "c/.hidden", b""),
]


def test_everything_is_read_in_order_and_counted() -> None:
    archive = Archive(TREE)

    assert found(archive, CheckScope()) == {"files": 4, "bytes": 6, "whole": [4, 6]}
    assert archive.read == ["a/one", "a/two", "ab", "c/.hidden"]


@pytest.mark.parametrize(
    ("paths", "read"),
    [
        ((b"a",), ["a/one", "a/two"]),
        ((b"ab", b"a/two"), ["a/two", "ab"]),
        ((b"a/again",), []),
        ((b"c",), ["c/.hidden"]),
    ],
)
def test_only_files_at_or_below_the_given_paths_are_read(paths: tuple[bytes, ...], read: list[str]) -> None:
    archive = Archive(TREE)

    assert found(archive, CheckScope(paths))["whole"] is None
    assert archive.read == read


@pytest.mark.parametrize("keeps", [0, 2, 1000])
def test_a_sample_is_the_one_the_engine_would_read_even_if_chunks_are_not_kept(keeps: int) -> None:
    entries = [entry(number, f"file-{number}", b"x" * (number % 5)) for number in range(200)]
    archive = Archive(entries, keeps=keeps)
    chosen = choose(entries, 20, "seed")

    checked = found(archive, CheckScope(sample=20, seed="seed"))

    assert checked == {"files": 20, "bytes": sum(one.size for one in chosen), "whole": [200, 400]}
    assert sorted(archive.read) == sorted(one.path for one in chosen)


def test_a_canary_file_is_hashed() -> None:
    assert found(Archive(TREE), CheckScope((b"a/two",), is_canary=True)) == {
        "sha256": hashlib.sha256(b"22").hexdigest(),
        "size": 2,
    }


@pytest.mark.parametrize(
    ("entries", "wanted"),
    [
        (TREE, CheckScope((b"a/three",))),
        (TREE, CheckScope((b"a", b"a/two"))),
        (TREE, CheckScope((b"ab", b"ab"))),
        (TREE, CheckScope((b"a",), is_canary=True)),
        ([*TREE, entry(6, "d", b"damaged")], CheckScope()),
        ([*TREE, entry(6, "d", b"damaged")], CheckScope(sample=100)),
        *(([*TREE, entry(6, path)], CheckScope()) for path in ("../d", "/d", "d/../../e", "d//e", "d/.", "./d", "d/")),
    ],
)
def test_missing_damaged_or_unusual_paths_are_left_to_the_engine(
    entries: list[ArchivedFile], wanted: CheckScope
) -> None:
    assert found(Archive(entries), wanted).keys() == {"reason"}


def test_a_cancelled_check_is_not_left_to_the_engine() -> None:
    for wanted in (CheckScope(), CheckScope((b"nowhere",)), CheckScope((b"a", b"a"))):
        with pytest.raises(Cancelled):
            found(Archive(TREE), wanted, Surroundings(is_cancelled=True))


def test_progress_never_decreases_and_stays_below_100_percent() -> None:
    surroundings = Surroundings()
    found(Archive(TREE, keeps=0), CheckScope(sample=3), surroundings)

    told = [one["progress_percent"] for one in surroundings.told]
    assert told == sorted(told)
    assert 50 < told[-1] < 100
