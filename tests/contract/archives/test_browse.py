"""Browsing folders of archives through the index and through the engine."""

import base64
import json
import os
from typing import Any

import pytest

from tests.contract.archives.world import LINES, NOT_UTF8, World, get, no_tick
from tests.contract.fields import error_of, is_timestamp
from tests.support.archive_sets import OwnEngine

ENTRY = {
    *("name", "name_b64", "path", "path_b64", "type", "size", "mtime", "mode", "user", "group", "link_target"),
    *("change", "item_count", "subtree_size"),
}


def names(answer: dict[str, Any]) -> list[str]:
    return [entry["name"] for entry in answer["entries"]]


def test_a_folder_shows_its_entries_with_all_fields(world: World) -> None:
    found = world.get(f"/archives/{world.ids['d1']}/browse", path=world.at(""))
    entries = {entry["name"]: entry for entry in found["entries"]}

    assert set(found) == {"archive_id", "path", "path_b64", "entries", "next_cursor", "source", "excludes", "total"}
    assert (found["source"], found["next_cursor"], found["excludes"]) == ("index", None, [])
    assert found["path"] == world.at("").rstrip("/")
    assert all(set(entry) == ENTRY for entry in found["entries"])
    notes, letters, link = entries["notes.txt"], entries["letters"], entries["link"]
    assert (notes["path"], notes["type"], notes["size"], notes["mode"]) == (world.at("notes.txt"), "-", 4, "-rw-r--r--")
    assert is_timestamp(notes["mtime"])
    assert notes["user"]
    assert notes["group"]
    assert (letters["type"], letters["size"]) == ("d", None)
    assert (link["type"], link["link_target"]) == ("l", "notes.txt")


def test_entries_are_sorted_by_the_bytes_of_their_names(world: World) -> None:
    found = world.get(f"/archives/{world.ids['d1']}/browse", path=world.at("letters"))

    assert names(found) == sorted(names(found))
    assert names(found)[0] == "April.txt"
    assert {"April.txt", "april.txt"} < set(names(found)), "names that differ in case alone are two"


def test_each_archive_shows_the_folder_as_it_was_at_that_time(world: World) -> None:
    def letters(word: str) -> set[str]:
        return set(names(world.get(f"/archives/{world.ids[word]}/browse", path=world.at("letters"))))

    assert "may.txt" in letters("d1")
    assert "may.txt" not in letters("d2")
    assert "may.txt" in letters("d3")


def test_the_root_leads_down_to_the_source(world: World) -> None:
    """Parent folders that the archive does not contain are folders without times."""
    path = ""
    for part in world.at("").rstrip("/").split("/"):
        found = world.get(f"/archives/{world.ids['d1']}/browse", path=path)
        assert names(found) == [part]
        assert found["entries"][0]["type"] == "d"
        path = found["entries"][0]["path"]

    assert path == world.at("").rstrip("/")


def test_a_large_folder_is_paged(world: World) -> None:
    url = f"/archives/{world.ids['d1']}/browse"
    whole = names(world.get(url, path=world.at("letters")))
    seen: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = world.get(url, path=world.at("letters"), limit=4, **cursor)
        assert len(page["entries"]) <= 4
        seen += names(page)
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}

    assert seen == whole
    assert len(whole) == 15


@pytest.mark.parametrize("path", ["no such folder", "letters/may.txt/below", "notes.txt"])
def test_a_missing_folder_returns_404(world: World, path: str) -> None:
    answer = world.admin.get(f"{world.url}/archives/{world.ids['d1']}/browse", params={"path": world.at(path)})

    assert error_of(answer) == (404, "archives.path_not_found")


def test_a_name_that_is_not_utf8_is_exact_in_base64(world: World) -> None:
    found = world.get(f"/archives/{world.ids['d1']}/browse", path=world.at(""))
    (coffee,) = [entry for entry in found["entries"] if entry["name_b64"]]

    assert base64.b64decode(coffee["name_b64"]) == NOT_UTF8
    assert base64.b64decode(coffee["path_b64"]) == os.fsencode(world.at("")) + NOT_UTF8
    assert coffee["name"] == "caf\N{REPLACEMENT CHARACTER}"


def test_a_name_with_a_line_break_is_one_entry(world: World) -> None:
    found = world.get(f"/archives/{world.ids['d1']}/browse", path=world.at(""))

    assert LINES in names(found)


def test_a_folder_may_be_requested_by_the_bytes_of_its_path(world: World) -> None:
    exact = base64.b64encode(os.fsencode(world.at("letters"))).decode()
    url = f"/archives/{world.ids['d1']}/browse"

    assert world.get(url, path_b64=exact) == world.get(url, path=world.at("letters"))


def test_a_path_of_4096_bytes_can_be_browsed_to_its_end(world: World) -> None:
    folder, name = world.get("/search", q="ffffffff")["results"][0]["path"].rsplit("/", 1)
    found = world.get(f"/archives/{world.ids['d1']}/browse", path=folder)

    assert names(found) == [name]
    assert len(found["entries"][0]["path"]) == 4096


@pytest.mark.parametrize("parts", [["browse", "zz"], ["browse", 1], ["changes", 5], [], "x"])
def test_a_forged_cursor_is_refused_with_422(world: World, parts: object) -> None:
    forged = base64.urlsafe_b64encode(json.dumps(parts).encode()).decode().rstrip("=")
    answer = world.admin.get(f"{world.url}/archives/{world.ids['d1']}/browse", params={"cursor": forged})

    assert error_of(answer) == (422, "paging.bad_cursor")


# --- through the engine -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def unindexed(worlds: Any) -> tuple[World, str]:
    """An archive of the folder with unusual names, in a repository without file history, and its browse address."""
    world: World = worlds("sqlite")
    no_tick(world.admin)
    repository = world.running.new_repository(source_paths=[world.story.docs], index_mode="archives")
    engine = OwnEngine.of(world.running)
    engine.make(repository, [("plain", world.times["d3"])], world.story.docs)
    answer = world.admin.post(f"/api/repositories/{repository['id']}/resync")
    for operation in answer.json()["operations"]:
        assert world.admin.wait_for_end(operation)["status"] == "completed"
    url = f"/api/repositories/{repository['id']}/archives"
    (archive,) = get(world.admin, url)["archives"]
    assert archive["history_state"] == "skipped"
    return world, f"{url}/{archive['id']}/browse"


def test_an_archive_that_is_not_indexed_is_browsed_through_the_engine(unindexed: tuple[World, str]) -> None:
    world, url = unindexed
    for path in ("", world.at(""), world.at("letters")):
        by_engine = get(world.admin, url, path=path)
        by_index = world.get(f"/archives/{world.ids['d3']}/browse", path=path)
        assert by_engine["source"] == "engine"
        assert by_engine["total"] is None
        assert all(entry["change"] is None for entry in by_engine["entries"]), "nothing is known of another archive"
        assert by_engine["entries"] == [entry | {"change": None} for entry in by_index["entries"]]


def test_a_cursor_from_the_engine_continues_in_the_index(unindexed: tuple[World, str]) -> None:
    world, url = unindexed
    first = get(world.admin, url, path=world.at("letters"), limit=6)
    rest = world.get(
        f"/archives/{world.ids['d3']}/browse", path=world.at("letters"), cursor=first["next_cursor"], limit=100
    )

    whole = get(world.admin, url, path=world.at("letters"))
    assert names(first) + names(rest) == names(whole)


def test_browsing_through_the_engine_also_reports_missing_folders_and_forged_cursors(
    unindexed: tuple[World, str],
) -> None:
    world, url = unindexed
    for path in ("no such folder", "notes.txt"):
        answer = world.admin.get(url, params={"path": world.at(path)})
        assert error_of(answer) == (404, "archives.path_not_found")
    forged = world.admin.get(url, params={"cursor": "nonsense"})
    assert error_of(forged) == (422, "paging.bad_cursor")


def test_browsing_through_the_engine_filters_by_name_but_supports_no_other_order(unindexed: tuple[World, str]) -> None:
    world, url = unindexed
    found = get(world.admin, url, path=world.at("letters"), q="APRIL", sizes="true")

    assert names(found) == ["April.txt", "april.txt"]
    for sort in ("-name", "size", "-size", "modified", "-modified"):
        answer = world.admin.get(url, params={"path": world.at("letters"), "sort": sort})
        assert error_of(answer) == (409, "archives.sort_needs_index")
