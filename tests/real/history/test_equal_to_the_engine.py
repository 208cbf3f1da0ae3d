"""The index returns what `borg list` and `borg diff` report: for both routes and both series of engine 1."""

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.history.answers import Change, ChangeKind
from holdfast.history.entry import listed, printable
from holdfast.history.index import HistoryIndex
from holdfast.history.sqlite import SqliteStore
from tests.real.history.engine import RealRepository, as_listed_by_engine, mutate, plant
from tests.support.engines import ENGINES
from tests.unit.history.model import Model, all_changes, check_everything

SEEDS = range(int(os.environ.get("HOLDFAST_HISTORY_SEEDS", "1")))
DAYS = 4


@pytest.fixture(params=sorted(ENGINES))
def repository(request: pytest.FixtureRequest, tmp_path: Path) -> RealRepository:
    return RealRepository(ENGINES[request.param], tmp_path / "engine").init()


@pytest.fixture
def indexes(tmp_path: Path) -> Iterator[dict[str, HistoryIndex]]:
    opened = {
        name: HistoryIndex(SqliteStore.create(tmp_path / f"{name}.db")) for name in ("listing", "chunks", "mixed")
    }
    yield opened
    for index in opened.values():
        index.close()


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_the_index_matches_the_engine_through_backups_changes_deletions_and_renames(
    repository: RealRepository, indexes: dict[str, HistoryIndex], seed: int
) -> None:
    rng = random.Random(seed)
    plant(repository.tree, rng)
    for day in range(DAYS):
        repository.create(f"day{day}")
        mutate(repository.tree, rng)
    index_all(repository, indexes, rng, [f"day{day}" for day in range(DAYS)])
    check_against_engine(repository, indexes, rng)

    repository.run("delete", f"{repository.location}::day1")
    repository.run("rename", f"{repository.location}::day2", "renamed")
    repository.create("another")
    repository.refresh()
    for index in indexes.values():
        gone = [one.engine_id for one in index.archives() if one.engine_id not in repository.ids.values()]
        assert index.remove(gone) == len(gone) == 2
        index.sweep()
    index_all(repository, indexes, rng, ["another", "renamed"])
    check_against_engine(repository, indexes, rng)


def index_all(
    repository: RealRepository, indexes: dict[str, HistoryIndex], rng: random.Random, names: list[str]
) -> None:
    """Index archives out of order, by listing, by chunks, and by either; some ingests are aborted first."""
    with repository.chunks() as chunks:
        for name in rng.sample(names, len(names)):
            base = rng.choice([None, *(one.engine_id for one in indexes["listing"].archives())])
            repository.ingest_listing(indexes["listing"], name, base)
            break_off(repository, indexes["chunks"], name)
            indexes["chunks"].ingest_chunks(repository.ids[name], chunks, series="tree")
            if rng.random() < 0.5:
                repository.ingest_listing(indexes["mixed"], name)
            else:
                indexes["mixed"].ingest_chunks(repository.ids[name], chunks, series="tree")


def break_off(repository: RealRepository, index: HistoryIndex, name: str) -> None:
    class Enough(Exception):
        pass

    def stop(_: int) -> None:
        raise Enough

    with repository.chunks() as chunks, pytest.raises(Enough):
        index.ingest_chunks(repository.ids[name], chunks, series="broken off", progress=stop)


def check_against_engine(repository: RealRepository, indexes: dict[str, HistoryIndex], rng: random.Random) -> None:
    for name, engine_id in repository.ids.items():
        expected = repository.listed_by_engine(name)
        for index in indexes.values():
            found = {printable(entry.path): as_listed_by_engine(entry) for entry in index.entries(engine_id)}
            assert found == expected
        exact = {listed(entry) for entry in indexes["chunks"].entries(engine_id)}
        assert exact == set(indexes["listing"].entries(engine_id))
    for before, after in [rng.sample(sorted(repository.ids), 2) for _ in range(3)]:
        check_changes(repository, indexes, before, after)
    for index in indexes.values():
        model = Model(
            {one.engine_id: {entry.path: entry for entry in index.entries(one.engine_id)} for one in index.archives()}
        )
        check_everything(index, model, rng, pairs=3)


def check_changes(repository: RealRepository, indexes: dict[str, HistoryIndex], before: str, after: str) -> None:
    said = repository.changed_by_engine(before, after)
    ids = repository.ids[before], repository.ids[after]
    rows = all_changes(indexes["chunks"], *ids).changes
    assert {printable(row.path): str(row.kind) for row in rows} == said
    # The listing does not identify the content, so it misses a file rewritten with the same size and time, and nothing
    # else.
    unseen = {row.path for row in rows if row.kind is ChangeKind.MODIFIED and _same_face(row)}
    for name in ("listing", "mixed"):
        shown = {row.path: row.kind for row in all_changes(indexes[name], *ids).changes}
        missing = {row.path: row.kind for row in rows}.items() - shown.items()
        assert {path for path, _ in missing} <= unseen
        assert not shown.items() - {row.path: row.kind for row in rows}.items()


def _same_face(row: Change) -> bool:
    assert row.before is not None
    assert row.after is not None
    return row.before._replace(content=0) == row.after._replace(content=0)


def test_an_item_that_spans_several_metadata_chunks_is_read_correctly(
    repository: RealRepository, indexes: dict[str, HistoryIndex]
) -> None:
    rng = random.Random(3)
    plant(repository.tree, rng)
    (repository.tree / "big").write_bytes(rng.randbytes(12 * 1024 * 1024))
    small_pieces = ("--chunker-params", "8,11,9,63", "--compression", "none")
    repository.create("one", *small_pieces)
    with (repository.tree / "big").open("r+b") as big:
        big.seek(3 * 1024 * 1024)
        big.write(b"changed")
    (repository.tree / "dir0" / "fnew").write_bytes(b"new")
    repository.create("two", *small_pieces)
    index = indexes["chunks"]
    with repository.chunks() as chunks:
        ids = {name: chunks.chunk_ids(repository.ids[name]) for name in ("one", "two")}
        assert all(len(one) > 1 for one in ids.values())  # no chunk is larger than half a megabyte
        for name in ("one", "two"):
            index.ingest_chunks(repository.ids[name], chunks, series="tree")
    for name in ("one", "two"):
        found = {printable(entry.path): as_listed_by_engine(entry) for entry in index.entries(repository.ids[name])}
        assert found == repository.listed_by_engine(name)
    said = repository.changed_by_engine("one", "two")
    rows = all_changes(index, repository.ids["one"], repository.ids["two"]).changes
    assert {printable(row.path): str(row.kind) for row in rows} == said
    assert said[b"tree/big"] == "modified"
