"""Finding files by part of their name."""

from typing import Any

import pytest

from tests.contract.archives.world import LINES, NOT_UTF8, World
from tests.contract.fields import error_of, is_timestamp

HIT = {
    *("path", "path_b64", "size", "mtime", "first_seen", "last_seen", "archive_count", "series", "present_in_latest"),
}


def names(answer: dict[str, Any]) -> set[str]:
    return {hit["path"].rsplit("/", 1)[-1] for hit in answer["results"]}


def test_part_of_a_name_finds_files_in_all_series(world: World) -> None:
    found = world.get("/search", q="notes")

    assert set(found) == {"query", "results", "truncated", "next_cursor", "coverage"}
    assert found["query"] == "notes"
    assert {hit["path"] for hit in found["results"]} == {
        world.at("notes.txt"),
        f"{world.story.web}/notes.txt".lstrip("/"),
    }
    assert (found["truncated"], found["next_cursor"]) == (False, None)
    assert found["coverage"]["indexed"] == 5


def test_a_hit_shows_in_which_archives_the_file_was_seen_and_its_latest_state(world: World) -> None:
    (hit,) = world.get("/search", q="may.tx")["results"]

    assert set(hit) == HIT
    assert (world.word(hit["first_seen"]), world.word(hit["last_seen"])) == ("d1", "d3")
    assert (hit["archive_count"], hit["series"], hit["size"]) == (2, ["docs"], len("may again\n"))
    assert is_timestamp(hit["mtime"])
    assert hit["present_in_latest"] is True


@pytest.mark.parametrize("query", ["april", "APRIL", "ApRiL.t"])
def test_search_ignores_case_and_lists_names_that_differ_only_in_case_separately(world: World, query: str) -> None:
    assert names(world.get("/search", q=query)) == {"April.txt", "april.txt"}


def test_the_text_may_occur_anywhere_in_the_name(world: World) -> None:
    assert names(world.get("/search", q="eep.m")) == {"keep.md"}
    assert names(world.get("/search", q="sh")) == {"script.sh"}
    assert names(world.get("/search", q="no such name")) == set()


def test_without_a_slash_parent_folders_do_not_match(world: World) -> None:
    assert names(world.get("/search", q="letters")) == {"letters"}


def test_with_a_slash_the_whole_path_is_matched(world: World) -> None:
    assert names(world.get("/search", q="letters/a")) == {"April.txt", "april.txt"}
    assert len(names(world.get("/search", q="etters/", limit=100))) == 15
    assert names(world.get("/search", q="/" + world.at("notes"))) == {"notes.txt"}


def test_a_series_filter_narrows_the_hits_their_counts_and_the_coverage(world: World) -> None:
    found = world.get("/search", q="notes", series="web")

    assert [hit["path"] for hit in found["results"]] == [f"{world.story.web}/notes.txt".lstrip("/")]
    assert found["results"][0]["archive_count"] == 2
    assert found["coverage"]["total"] == 2
    assert world.get("/search", q="notes", series="no such series")["results"] == []


def test_deleted_only_finds_files_missing_from_the_newest_archives(world: World) -> None:
    assert names(world.get("/search", q="txt", deleted_only=True)) == {"new.txt"}
    (hit,) = world.get("/search", q="new.txt", deleted_only=True)["results"]
    assert hit["present_in_latest"] is False
    assert (world.word(hit["first_seen"]), world.word(hit["last_seen"])) == ("d2", "d2")


def test_unusual_names_are_found(world: World) -> None:
    (lines,) = world.get("/search", q="two\nli")["results"]
    (coffee,) = world.get("/search", q="caf")["results"]
    (deep,) = world.get("/search", q="ffffffff")["results"]

    assert lines["path"] == world.at(LINES)
    assert lines["path_b64"] is None
    assert coffee["path_b64"] is not None
    assert coffee["path"].encode() != NOT_UTF8
    assert len(deep["path"]) == 4096


def test_pages_contain_each_hit_once(world: World) -> None:
    whole = world.get("/search", q="page-")["results"]
    seen: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while True:
        page = world.get("/search", q="page-", limit=5, **cursor)
        assert len(page["results"]) <= 5
        seen += page["results"]
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}

    assert len(whole) == 12
    assert seen == whole


def test_an_empty_query_a_bad_cursor_and_a_bad_limit_are_refused_with_422(world: World) -> None:
    assert world.admin.get(f"{world.url}/search").status_code == 422
    assert world.admin.get(f"{world.url}/search", params={"q": ""}).status_code == 422
    assert error_of(world.admin.get(f"{world.url}/search", params={"q": "  "})) == (422, "archives.empty_query")
    answer = world.admin.get(f"{world.url}/search", params={"q": "a", "cursor": "nonsense"})
    assert error_of(answer) == (422, "paging.bad_cursor")
    assert world.admin.get(f"{world.url}/search", params={"q": "a", "limit": 501}).status_code == 422
