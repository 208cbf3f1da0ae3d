"""Whole folders with the chunks of their files, compared with plain dictionaries: everything, or None if inexact."""

import random
import stat

import pytest

from holdfast.history.entry import Entry
from holdfast.history.excludes import Excludes
from holdfast.history.index import HistoryIndex
from holdfast.history.tree import Branch
from tests.unit.history.model import Files, Model, a_directory, a_file, a_link, archive_of, changed, random_archive
from tests.unit.history.sources import FakeChunks, chunks_of, listing_of
from tests.unit.history.test_index import add_chunks

MANY = 10_000


def below(files: Files, folders: list[bytes]) -> set[bytes]:
    return {path for path in files for folder in folders if path == folder or path.startswith(folder + b"/")}


def without_hard_links(files: Files) -> Files:
    return {path: entry for path, entry in files.items() if not entry.is_hard_link}


def ids_of(branch: Branch) -> list[tuple[bytes, int]]:
    return [(chunk.id, chunk.size) for chunk in branch.chunks]


def check(branches: list[Branch] | None, files: Files, wanted: set[bytes]) -> None:
    assert branches is not None
    assert sorted(branch.entry.path for branch in branches) == sorted(wanted)
    seen: set[bytes] = set()
    for branch in branches:
        path, entry = branch.entry.path, files[branch.entry.path]
        folder = path.rpartition(b"/")[0]
        assert folder in seen or folder not in wanted, "a folder comes before what is in it"
        seen.add(path)
        assert branch.entry._replace(content=0) == entry._replace(content=0, chunks=b"")
        has_content = stat.S_ISREG(entry.mode) and entry.size
        assert ids_of(branch) == ([(one[0], one[1]) for one in chunks_of(entry)] if has_content else [])


@pytest.mark.parametrize("seed", range(3))
def test_a_folder_has_every_file_below_it_with_its_chunks(index: HistoryIndex, seed: int) -> None:
    rng, model = random.Random(seed), Model()
    files = without_hard_links(random_archive(rng, 60))
    for path in rng.sample([path for path in files if files[path].content], 5):
        files[path] = files[path]._replace(size=rng.randrange(1000, 9000))
    add_chunks(index, model, "first", files)
    later = without_hard_links(changed(rng, files))
    add_chunks(index, model, "second", later)
    for archive, held in (("first", files), ("second", later)):
        check(index.tree(archive, [], most=MANY), held, set(held))
        for _ in range(4):
            folder = rng.choice([path.rpartition(b"/")[0] or path for path in held])
            check(index.tree(archive, [folder], most=MANY), held, below(held, [folder]))
        sealed = rng.choice(sorted(held))
        check(index.tree(archive, [], without={sealed}, most=MANY), held, set(held) - below(held, [sealed]))


def hard_link(path: bytes, first: bytes) -> Entry:
    return a_file(path, size=0)._replace(link=first)


def test_the_first_name_of_a_file_has_the_content_whichever_name_the_engine_keeps_it_under(
    index: HistoryIndex,
) -> None:
    held = a_file(b"z/held", size=2500)
    files = archive_of(hard_link(b"a/one", b"z/held"), hard_link(b"a/two", b"z/held"), held)
    index.ingest_chunks("first", FakeChunks().add("first", files.values()), series="daily")
    for paths, named in (([], [b"a/one", b"a/two", b"z/held"]), ([b"a"], [b"a/one", b"a/two"]), ([b"z"], [b"z/held"])):
        branches = index.tree("first", paths, most=MANY)
        assert branches is not None
        assert [branch.entry.path for branch in branches] == named
        assert [branch.same_as for branch in branches] == [None, *(named[0] for _ in named[1:])]
        assert ids_of(branches[0]) == [(one[0], one[1]) for one in chunks_of(held)]
        assert {branch.entry.size for branch in branches} == {2500}


def device(path: bytes) -> Entry:
    return a_file(path, size=0)._replace(mode=stat.S_IFCHR | 0o600)


@pytest.mark.parametrize(
    "hindrance",
    [device(b"d/device"), hard_link(b"d/lost", b"nowhere")],
    ids=["a device", "a hard link to nothing"],
)
def test_folders_that_the_index_does_not_know_exactly_are_left_to_the_engine(
    index: HistoryIndex, hindrance: Entry
) -> None:
    files = archive_of(a_directory(b"d"), a_file(b"d/one"), a_link(b"link", b"d/one"), hindrance)
    index.ingest_chunks("first", FakeChunks().add("first", files.values()), series="daily")
    assert index.tree("first", [], most=MANY) is None
    assert index.tree("first", [b"d"], most=MANY) is None
    assert index.tree("first", [b"link"], most=MANY) is not None


def test_archives_without_chunks_large_folders_patterns_and_unknown_paths_are_left_to_the_engine(
    index: HistoryIndex,
) -> None:
    files = archive_of(a_directory(b"d"), a_file(b"d/one"), a_file(b"d/two"))
    index.ingest_listing("listed", listing_of(files.values()))
    index.ingest_chunks("first", FakeChunks().add("first", files.values()), series="daily")
    index.ingest_chunks(
        "fewer", FakeChunks().add("fewer", files.values()), series="other", excludes=Excludes(["d/two"])
    )
    assert index.tree("listed", [b"d"], most=MANY) is None
    assert index.tree("fewer", [b"d"], most=MANY) is None
    assert index.tree("first", [b"d", b"missing"], most=MANY) is None
    assert index.tree("first", [b"d"], most=2) is None
    assert index.tree("first", [b"d"], most=3) is not None
