"""The history of one path across all archives."""

import base64
import os
from typing import Any

import pytest

from tests.contract.archives.world import NOT_UTF8, World
from tests.contract.fields import error_of, is_timestamp

ENTRY = {
    *("archive_id", "archive_name", "series", "start", "change", "size", "mtime", "mode"),
    *("until_archive_id", "archive_count", "same_content_as"),
}


def events(world: World, answer: dict[str, Any]) -> list[tuple[str | None, str]]:
    return [(world.word(entry["archive_id"]), entry["change"]) for entry in answer["entries"]]


def ranges(world: World, answer: dict[str, Any]) -> list[tuple[str, str | None, str | None]]:
    return [
        (one["series"], world.word(one["from_archive_id"]), world.word(one["to_archive_id"]))
        for one in answer["present"]
    ]


def test_the_history_of_a_path_lists_every_archive_that_changed_it(world: World) -> None:
    found = world.get("/history", path=world.at("notes.txt"))

    assert set(found) == {"path", "path_b64", "entries", "present", "present_in_latest", "presence", "coverage"}
    assert found["path"] == world.at("notes.txt")
    assert events(world, found) == [("d1", "added"), ("d2", "modified")]
    assert all(set(entry) == ENTRY for entry in found["entries"])
    assert [entry["size"] for entry in found["entries"]] == [4, 12]
    assert all(is_timestamp(entry["start"]) and is_timestamp(entry["mtime"]) for entry in found["entries"])
    assert found["entries"][0]["mode"].startswith("-rw")
    assert found["entries"][0]["archive_name"] == world.names["d1"]


def test_a_range_that_reaches_the_newest_archive_has_no_end(world: World) -> None:
    found = world.get("/history", path=world.at("notes.txt"))

    assert ranges(world, found) == [("docs", "d1", None)]
    assert (found["present_in_latest"], found["presence"]) == (True, "present")


def test_a_file_that_was_removed_and_came_back_has_two_ranges(world: World) -> None:
    found = world.get("/history", path=world.at("letters/may.txt"))

    assert ranges(world, found) == [("docs", "d1", "d1"), ("docs", "d3", None)]
    assert events(world, found) == [("d1", "added"), ("d2", "removed"), ("d3", "added")]
    assert found["entries"][1]["size"] is None


def test_a_removed_file_is_not_in_the_latest_archive(world: World) -> None:
    found = world.get("/history", path="/" + world.at("new.txt"))

    assert ranges(world, found) == [("docs", "d2", "d2")]
    assert (found["present_in_latest"], found["presence"]) == (False, "gone")


def test_a_folder_that_no_archive_contains_has_no_history(world: World) -> None:
    """The engine archives the sources, but not their parent folders."""
    found = world.get("/history", path=str(world.story.folder).lstrip("/"))

    assert (found["entries"], found["present"], found["present_in_latest"]) == ([], [], False)


def test_the_coverage_shows_how_much_of_the_repository_was_searched(world: World) -> None:
    found = world.get("/history", path=world.at("notes.txt"))

    assert found["coverage"] == {"indexed": 5, "total": 5, "unindexed_archive_ids": []}


def test_a_path_that_never_existed_has_no_history(world: World) -> None:
    found = world.get("/history", path="never/was")

    assert (found["entries"], found["present"], found["present_in_latest"]) == ([], [], False)
    assert found["presence"] == "never"


def test_a_name_that_is_not_utf8_can_be_requested_by_its_bytes(world: World) -> None:
    exact = base64.b64encode(os.fsencode(world.at("")) + NOT_UTF8).decode()
    found = world.get("/history", path_b64=exact)

    assert events(world, found) == [("d1", "added")]
    assert found["path_b64"] == exact
    assert "\N{REPLACEMENT CHARACTER}" in found["path"]


def test_a_change_of_mode_alone_is_an_event(world: World) -> None:
    found = world.get("/history", path=world.at("script.sh"))

    assert events(world, found) == [("d1", "added"), ("d2", "modified")]
    assert [entry["mode"] for entry in found["entries"]] == ["-rw-r--r--", "-rwxr-xr-x"]


@pytest.mark.parametrize("query", [{}, {"path": ""}, {"path": "/"}, {"path_b64": "no base64!"}, {"path_b64": "YQBi"}])
def test_an_invalid_path_is_refused_with_422(world: World, query: dict[str, str]) -> None:
    answer = world.admin.get(f"{world.url}/history", params=query)

    assert error_of(answer) == (422, "archives.bad_path")


def spans(world: World, answer: dict[str, Any]) -> list[tuple[str | None, str | None, int]]:
    return [
        (world.word(entry["archive_id"]), world.word(entry["until_archive_id"]), entry["archive_count"])
        for entry in answer["entries"]
    ]


def test_each_state_shows_its_last_archive_and_the_number_of_archives(world: World) -> None:
    assert spans(world, world.get("/history", path=world.at("notes.txt"))) == [("d1", "d1", 1), ("d2", "d3", 2)]
    assert spans(world, world.get("/history", path=world.at("keep.md"))) == [("d1", "d3", 3)]
    assert spans(world, world.get("/history", path=world.at("letters/may.txt"))) == [
        ("d1", "d1", 1),
        ("d2", None, 0),
        ("d3", "d3", 1),
    ]


def test_a_state_refers_to_an_earlier_archive_with_the_same_content(
    world: World, request: pytest.FixtureRequest
) -> None:
    """The content is only indexed if archives were read by chunks, which is the case on SQLite here."""
    entries = world.get("/history", path=world.at("script.sh"))["entries"]
    by_chunks = request.node.callspec.params["world"] == "sqlite"

    assert entries[0]["same_content_as"] is None
    assert entries[1]["same_content_as"] == (world.ids["d1"] if by_chunks else None)
    assert all(one["same_content_as"] is None for one in world.get("/history", path=world.at("notes.txt"))["entries"])
