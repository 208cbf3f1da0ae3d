"""Index files that come, go, and break."""

from pathlib import Path

import pytest

from holdfast.archives.history.errors import IndexDamaged, IndexUnavailable
from holdfast.archives.history.index import HistoryIndex
from holdfast.archives.indexes import Indexes
from holdfast.errors import Unavailable
from tests.unit.history.model import a_file
from tests.unit.history.sources import listing_of

NAME = "0123456789abcdef"


@pytest.fixture
def indexes(tmp_path: Path) -> Indexes:
    return Indexes(tmp_path / "history")


def archives(index: HistoryIndex | None) -> list[str] | None:
    return [one.engine_id for one in index.archives()] if index else None


def test_there_is_no_index_until_one_is_written(indexes: Indexes) -> None:
    assert indexes.reading(NAME) is None
    made = indexes.writing(NAME)

    assert indexes.reading(NAME) is made
    assert indexes.size(NAME) > 0


def test_an_index_that_another_process_has_built_anew_is_opened_anew(tmp_path: Path) -> None:
    """Both have the file open: the one must not go on reading what the other has thrown away."""
    mine, theirs = Indexes(tmp_path), Indexes(tmp_path)
    theirs.writing(NAME).ingest_listing("old", listing_of([a_file(b"f")]))
    assert archives(mine.reading(NAME)) == ["old"]

    theirs.forget(NAME)
    assert mine.reading(NAME) is None
    theirs.writing(NAME).ingest_listing("new", listing_of([a_file(b"f")]))

    assert archives(mine.reading(NAME)) == ["new"]


def test_a_file_that_is_no_index_counts_as_none_and_is_replaced_when_one_is_written(indexes: Indexes) -> None:
    indexes.writing(NAME).ingest_listing("a", listing_of([a_file(b"f")]))
    indexes.close()
    file = next(path for path in (Path(indexes._folder)).glob(f"{NAME}.db"))
    file.write_bytes(b"not a database" * 1000)

    assert indexes.reading(NAME) is None
    assert archives(indexes.writing(NAME)) == []


def test_damage_found_in_the_middle_of_an_answer_is_answered_as_without_an_index(indexes: Indexes) -> None:
    indexes.writing(NAME)

    def question(index: HistoryIndex | None) -> str:
        if index is not None:
            raise IndexDamaged("a page is broken")
        return "nothing is indexed"

    assert indexes.ask(NAME, question) == "nothing is indexed"
    assert indexes.reading(NAME) is None, "it is thrown away, and the next run builds it anew"


def test_an_index_that_cannot_be_read_just_now_is_503_and_stays(indexes: Indexes) -> None:
    indexes.writing(NAME)

    def question(_index: HistoryIndex | None) -> None:
        raise IndexUnavailable("busy")

    with pytest.raises(Unavailable) as refused:
        indexes.ask(NAME, question)
    assert (refused.value.key, refused.value.retry_after) == ("archives.index_unavailable", 5)
    assert indexes.reading(NAME) is not None


def test_one_builds_at_a_time_among_all_processes(tmp_path: Path) -> None:
    mine, theirs = Indexes(tmp_path), Indexes(tmp_path)
    with mine.building(NAME) as first, theirs.building(NAME) as second, theirs.building("another") as other:
        assert (first, second, other) == (True, False, True)
    with theirs.building(NAME) as again:
        assert again is True


def test_nothing_of_a_forgotten_repository_stays(tmp_path: Path) -> None:
    indexes = Indexes(tmp_path)
    with indexes.building(NAME):
        indexes.writing(NAME).ingest_listing("a", listing_of([a_file(b"f")]))
    indexes.writing("another")

    indexes.remove_all_of(NAME)

    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(NAME)] == []
    assert indexes.reading("another") is not None
    assert indexes.size(NAME) == 0
