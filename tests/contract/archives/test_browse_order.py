"""Browsing folders of archives: order, filter, counts, sizes, and changes since the previous archive."""

from typing import Any

import pytest

from tests.contract.archives.world import World
from tests.contract.fields import error_of

SORTS = ["name", "-name", "size", "-size", "modified", "-modified"]
"""The folder `letters` holds files of 6, 14 and 4 bytes in the first archive, ten pages of 1 byte, and two of 2."""


def names(answer: dict[str, Any]) -> list[str]:
    return [entry["name"] for entry in answer["entries"]]


def folder(world: World, word: str, path: str = "", **params: Any) -> dict[str, Any]:
    found: dict[str, Any] = world.get(f"/archives/{world.ids[word]}/browse", path=world.at(path), **params)
    return found


def all_pages(world: World, path: str, limit: int, **params: Any) -> list[str]:
    seen: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = folder(world, "d1", path, limit=limit, **params, **cursor)
        seen += names(page)
        if page["next_cursor"] is None:
            return seen
        cursor = {"cursor": page["next_cursor"]}


def test_sorting_by_name_is_the_default(world: World) -> None:
    assert folder(world, "d1", sort="name") == folder(world, "d1")


def test_entries_of_the_same_size_are_sorted_by_name(world: World) -> None:
    up, down = folder(world, "d1", "letters", sort="size"), folder(world, "d1", "letters", sort="-size")

    assert names(up) == [entry["name"] for entry in sorted(up["entries"], key=lambda one: (one["size"], one["name"]))]
    assert names(down)[:2] == ["april.txt", "April.txt"]
    assert names(down) == [
        entry["name"] for entry in sorted(down["entries"], key=lambda one: (-one["size"], one["name"]))
    ]


def test_when_sorting_by_size_a_folder_counts_with_its_contents(world: World) -> None:
    found = folder(world, "d1", sort="-size")

    assert names(found)[0] == "letters"
    assert found["entries"][0]["subtree_size"] == 38


def test_entries_can_be_sorted_by_modification_time(world: World) -> None:
    up = folder(world, "d2", sort="modified")["entries"]
    down = folder(world, "d2", sort="-modified")["entries"]

    assert [one["mtime"] for one in up] == sorted(one["mtime"] for one in up)
    assert [one["mtime"] for one in down] == sorted((one["mtime"] for one in down), reverse=True)


@pytest.mark.parametrize("sort", SORTS)
def test_pages_contain_each_entry_once_in_every_order(world: World, sort: str) -> None:
    whole = names(folder(world, "d1", "letters", sort=sort))

    assert len(set(whole)) == 15
    for limit in (1, 4, 15):
        assert all_pages(world, "letters", limit, sort=sort) == whole
    assert all_pages(world, "letters", 2, sort=sort, q="page-1") == [one for one in whole if "page-1" in one]


def test_a_cursor_is_valid_only_for_its_own_order(world: World) -> None:
    url = f"{world.url}/archives/{world.ids['d1']}/browse"
    for sort in SORTS:
        cursor = folder(world, "d1", "letters", sort=sort, limit=2)["next_cursor"]
        for other in SORTS:
            answer = world.admin.get(url, params={"path": world.at("letters"), "sort": other, "cursor": cursor})
            assert (answer.status_code == 200) == (other == sort)
            assert other == sort or error_of(answer) == (422, "paging.bad_cursor")


def test_the_filter_matches_the_name_and_ignores_case(world: World) -> None:
    assert names(folder(world, "d1", "letters", q="APRIL")) == ["April.txt", "april.txt"]
    assert names(folder(world, "d1", "letters", q="ge-1")) == ["page-10", "page-11"]
    assert names(folder(world, "d1", "letters", q="docs")) == [], "the path above does not count"
    assert names(folder(world, "d1", "letters", q="%")) == []
    assert folder(world, "d1", "letters", q="") == folder(world, "d1", "letters")


def test_the_total_counts_the_entries_of_all_pages(world: World) -> None:
    assert folder(world, "d1", "letters")["total"] == 15
    assert folder(world, "d1", "letters", limit=4)["total"] == 15
    assert folder(world, "d1", "letters", q="april", limit=1)["total"] == 2
    assert folder(world, "d1", "letters", q="nothing like it")["total"] == 0
    assert folder(world, "d2", "letters")["total"] == 14


def test_folder_sizes_are_included_on_request(world: World) -> None:
    asked = {entry["name"]: entry for entry in folder(world, "d1", sizes="true")["entries"]}
    unasked = folder(world, "d1")["entries"]

    assert (asked["letters"]["item_count"], asked["letters"]["subtree_size"]) == (15, 38)
    assert (asked["letters"]["size"], asked["notes.txt"]["size"]) == (None, 4)
    assert (asked["notes.txt"]["item_count"], asked["notes.txt"]["subtree_size"]) == (None, None)
    assert all(entry["item_count"] is None and entry["subtree_size"] is None for entry in unasked)


def test_each_archive_has_its_own_sizes(world: World) -> None:
    def letters(word: str) -> tuple[int, int]:
        (found,) = [one for one in folder(world, word, sizes="true")["entries"] if one["name"] == "letters"]
        return found["item_count"], found["subtree_size"]

    assert [letters(word) for word in ("d1", "d2", "d3")] == [(15, 38), (14, 34), (15, 44)]


def test_parent_folders_that_the_archive_does_not_contain_have_sizes_too(world: World) -> None:
    found = world.get(f"/archives/{world.ids['d1']}/browse", sizes="true")
    (top,) = found["entries"]

    assert top["item_count"] == 1
    assert top["subtree_size"] == 38 + 4 + 5 + 5 + 7 + 6 + 4
    assert top["change"] is None


def test_each_entry_shows_how_it_differs_from_the_previous_archive(world: World) -> None:
    def changes(word: str, path: str = "") -> dict[str, str | None]:
        return {entry["name"]: entry["change"] for entry in folder(world, word, path)["entries"]}

    second = changes("d2")
    assert (second["new.txt"], second["notes.txt"], second["script.sh"]) == ("added", "modified", "modified")
    assert second["keep.md"] == "unchanged"
    assert changes("d3", "letters")["may.txt"] == "added"
    assert changes("d3", "letters")["April.txt"] == "unchanged"
    assert set(changes("d1").values()) == {None}, "the first of its series"


@pytest.mark.parametrize(
    "query",
    [
        {"sort": "mtime"},
        {"sort": ""},
        {"sort": "--name"},
        {"q": "x" * 1025},
        {"q": "a\0b"},
        {"sizes": "perhaps"},
        {"cursor": "nonsense", "sort": "size"},
        {"cursor": "WyJicm93c2Ugc2l6ZSIsICJ4IiwgInl5Il0", "sort": "size"},
    ],
)
def test_invalid_parameters_are_refused_with_422(world: World, query: dict[str, str]) -> None:
    answer = world.admin.get(f"{world.url}/archives/{world.ids['d1']}/browse", params=query)

    assert answer.status_code == 422
    assert "cursor" not in query or error_of(answer) == (422, "paging.bad_cursor")
