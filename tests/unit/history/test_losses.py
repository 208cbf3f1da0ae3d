"""What only some archives contain, compared with a naive computation."""

import random
import stat

import pytest

from backup_jobs.paths import ancestors
from holdfast.history.answers import unchanged
from holdfast.history.entry import Entry
from holdfast.history.errors import InvalidCursor
from holdfast.history.index import HistoryIndex
from tests.unit.history.model import Model, a_directory, a_file, archive_of, changed, random_archive
from tests.unit.history.test_index import SEEDS, add_chunks, add_listing


def all_lost(index: HistoryIndex, going: list[str], staying: list[str], limit: int = 7) -> list[bytes]:
    paths: list[bytes] = []
    cursor = None
    while True:
        page = index.losses(going, staying, limit=limit, cursor=cursor)
        paths += [one.path for one in page.lost]
        if (cursor := page.next_cursor) is None:
            return paths


def expected(model: Model, going: list[str], staying: list[str]) -> tuple[set[bytes], set[tuple[bytes, Entry]]]:
    """Lost paths and lost states, path by path and archive by archive. A folder of something that stays is not lost."""
    kept: dict[bytes, list[Entry]] = {}
    for name in staying:
        for path, entry in model.archives[name].items():
            kept.setdefault(path, []).append(entry)
    states = {
        (path, entry)
        for name in going
        for path, entry in model.archives[name].items()
        if not any(unchanged(entry, other) for other in kept.get(path, ()))
    }
    still_there = {*kept, *(folder for path in kept for folder in ancestors(path))}
    return {path for path, _ in states if path not in still_there}, states


def check(index: HistoryIndex, model: Model, rng: random.Random) -> None:
    names = list(model.archives)
    for _ in range(6):
        going = rng.sample(names, rng.randrange(1, len(names) + 1))
        staying = [name for name in names if name not in going]
        paths, states = expected(model, going, staying)
        page = index.losses(going, staying)
        files = [entry for _, entry in states if stat.S_ISREG(entry.mode) and not entry.link]
        assert (page.paths, page.versions) == (len(paths), len(states))
        assert page.bytes == sum(entry.size for entry in files)
        found = all_lost(index, going, staying)
        assert (set(found), len(found)) == (paths, len(paths))


@pytest.mark.parametrize("seed", SEEDS)
def test_losses_of_random_archives_match_the_model(index: HistoryIndex, seed: int) -> None:
    rng, model = random.Random(300 + seed), Model()
    files = random_archive(rng)
    for day in range(5):
        add_listing(index, model, f"day{day}", files)
        files = changed(rng, files)
    check(index, model, rng)


@pytest.mark.parametrize("seed", SEEDS)
def test_losses_of_archives_ingested_by_both_routes_match_the_model(index: HistoryIndex, seed: int) -> None:
    rng, model = random.Random(400 + seed), Model()
    files = random_archive(rng)
    for day in range(5):
        add = add_listing if rng.random() < 0.5 else add_chunks
        add(index, model, f"day{day}", files)
        files = changed(rng, files)
    check(index, model, rng)


def test_an_older_version_of_a_file_that_stays_is_not_a_lost_path(index: HistoryIndex) -> None:
    model = Model()
    add_listing(index, model, "old", archive_of(a_directory(b"a"), a_file(b"a/b", size=10), a_file(b"a/c", size=5)))
    add_listing(index, model, "new", archive_of(a_directory(b"a"), a_file(b"a/b", size=12)))

    page = index.losses(["old"], ["new"])

    assert (page.paths, page.versions, page.bytes) == (1, 2, 15)
    assert [one.path for one in page.lost] == [b"a/c"]


def test_a_file_is_lost_only_if_every_archive_that_contains_it_is_removed(index: HistoryIndex) -> None:
    model = Model()
    for name in ("one", "two"):
        add_listing(index, model, name, archive_of(a_file(b"a")))

    assert index.losses(["one"], ["two"]).versions == 0
    assert index.losses([], ["one", "two"]).paths == 0
    assert index.losses(["one", "two"], []).paths == 1


def test_a_foreign_cursor_is_refused(index: HistoryIndex) -> None:
    with pytest.raises(InvalidCursor):
        index.losses([], [], cursor="nonsense")
