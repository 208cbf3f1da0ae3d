"""A folder over time: every name it ever contained, with the archives that contain each version."""

from typing import Any

from tests.contract.archives.world import World
from tests.contract.fields import error_of


def present_in(found: dict[str, Any], lane: dict[str, Any]) -> set[int]:
    """The ids of the archives that contain the name, by the pieces of its lane."""
    archives = found["archives"]
    return {archives[step]["id"] for piece in lane["pieces"] for step in range(piece["first"], piece["last"] + 1)}


def test_lanes_show_the_same_entries_as_browsing_each_archive(world: World) -> None:
    folder = world.at("letters")
    found = world.get("/lanes", path=folder)
    assert [one["start"] for one in found["archives"]] == sorted(one["start"] for one in found["archives"])
    for archive in found["archives"]:
        answer = world.admin.get(f"{world.url}/archives/{archive['id']}/browse", params={"path": folder})
        entries = answer.json()["entries"] if answer.status_code == 200 else []
        shown = {entry["path"]: entry["size"] for entry in entries}
        told = {}
        step = found["archives"].index(archive)
        for lane in found["entries"]:
            for piece in lane["pieces"]:
                if piece["first"] <= step <= piece["last"]:
                    told[lane["path"]] = piece["size"]
        assert told == shown, archive["name"]


def test_a_name_that_was_removed_and_came_back_has_a_gap(world: World) -> None:
    found = world.get("/lanes", path=world.at("letters"))
    may = next(lane for lane in found["entries"] if lane["name"] == "may.txt")
    holders = present_in(found, may)
    assert world.ids["d1"] in holders
    assert world.ids["d2"] not in holders
    assert world.ids["d3"] in holders
    assert len(may["pieces"]) >= 2


def test_pages_contain_every_name(world: World) -> None:
    folder = world.at("letters")
    whole = world.get("/lanes", path=folder)
    names: list[str] = []
    cursor = None
    while True:
        page = world.get("/lanes", path=folder, limit=1, **({"cursor": cursor} if cursor else {}))
        names += [lane["path"] for lane in page["entries"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert names == [lane["path"] for lane in whole["entries"]]
    assert whole["total"] == len(names) > 1


def test_a_series_filter_shows_only_archives_of_that_series(world: World) -> None:
    all_of_them = world.get("/lanes", path="")
    series = all_of_them["archives"][0]["series"]
    found = world.get("/lanes", path="", series=series)
    assert {one["series"] for one in found["archives"]} == {series}


def test_a_folder_that_never_existed_has_no_lanes(world: World) -> None:
    found = world.get("/lanes", path="no/such/folder")
    assert (found["entries"], found["total"], found["next_cursor"]) == ([], 0, None)


def test_an_invalid_cursor_is_refused(world: World) -> None:
    answer = world.admin.get(f"{world.url}/lanes", params={"path": world.at("letters"), "cursor": "bm9uZQ"})
    assert error_of(answer) == (422, "paging.bad_cursor")
