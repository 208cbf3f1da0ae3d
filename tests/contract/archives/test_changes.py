"""What changed between archives."""

from typing import Any

import pytest

from tests.contract.archives.world import World
from tests.contract.fields import error_of, is_timestamp

ANSWER = {
    *("archive_id", "compare_to_id", "history_state", "changes", "totals", "next_cursor", "incomplete"),
    *("unindexed_archive_ids", "byte_totals", "groups"),
}
ROW = {
    *("path", "path_b64", "change", "size_before", "size_after", "mtime_before", "mtime_after"),
    *("mode_changed", "owner_changed"),
}
GROUP = {
    *("name", "name_b64", "path", "path_b64", "type", "added", "removed", "modified"),
    *("bytes_added", "bytes_removed", "bytes_net"),
}


def files(world: World, answer: dict[str, Any]) -> dict[str, str]:
    """The changes of files by their path below the source, without folders, of which only the times change."""
    prefix = world.at("")
    rows = {row["path"].removeprefix(prefix): row["change"] for row in answer["changes"]}
    assert len(rows) == len(answer["changes"])
    return {path: change for path, change in rows.items() if path != "letters" and not world.at("").startswith(path)}


def test_an_archive_is_compared_with_its_predecessor_by_default(world: World) -> None:
    found = world.get(f"/archives/{world.ids['d2']}/changes")

    assert set(found) == ANSWER
    assert (found["archive_id"], found["compare_to_id"]) == (world.ids["d2"], world.ids["d1"])
    assert files(world, found) == {
        "notes.txt": "modified",
        "letters/may.txt": "removed",
        "new.txt": "added",
        "script.sh": "modified",
    }
    assert found["history_state"] == "indexed"
    assert (found["incomplete"], found["unindexed_archive_ids"], found["next_cursor"]) == (False, [], None)


def test_a_change_shows_both_sides(world: World) -> None:
    rows = {row["path"]: row for row in world.get(f"/archives/{world.ids['d2']}/changes")["changes"]}
    notes, new, gone, script = (
        rows[world.at(path)] for path in ("notes.txt", "new.txt", "letters/may.txt", "script.sh")
    )

    assert all(set(row) == ROW for row in rows.values())
    assert (notes["size_before"], notes["size_after"]) == (4, 12)
    assert is_timestamp(notes["mtime_before"])
    assert notes["mtime_after"] > notes["mtime_before"]
    assert (notes["mode_changed"], notes["owner_changed"]) == (False, False)
    assert (new["size_before"], new["mtime_before"], new["size_after"]) == (None, None, 4)
    assert (gone["size_before"], gone["size_after"], gone["mtime_after"]) == (4, None, None)
    assert script["mode_changed"] is True
    assert script["size_before"] == script["size_after"]


def test_the_totals_count_what_the_rows_show(world: World) -> None:
    found = world.get(f"/archives/{world.ids['d2']}/changes")
    words = [row["change"] for row in found["changes"]]

    assert found["totals"] == {word: words.count(word) for word in ("added", "removed", "modified")}
    assert found["totals"]["added"] == 1


def test_the_first_archive_of_a_series_has_nothing_to_compare_with(world: World) -> None:
    found = world.get(f"/archives/{world.ids['w1']}/changes")

    assert (found["compare_to_id"], found["changes"], found["incomplete"]) == (None, [], False)
    assert found["totals"] == {"added": 0, "removed": 0, "modified": 0}


def test_the_predecessor_belongs_to_the_same_series(world: World) -> None:
    assert world.word(world.get(f"/archives/{world.ids['w2']}/changes")["compare_to_id"]) == "w1"
    assert world.word(world.get(f"/archives/{world.ids['d3']}/changes")["compare_to_id"]) == "d2"


def test_compare_to_may_be_older_or_newer(world: World) -> None:
    forward = world.get(f"/archives/{world.ids['d3']}/changes", compare_to=world.ids["d1"])
    backward = world.get(f"/archives/{world.ids['d1']}/changes", compare_to=world.ids["d3"])

    assert files(world, forward) == {"notes.txt": "modified", "letters/may.txt": "modified", "script.sh": "modified"}
    assert files(world, backward) == files(world, forward)
    sizes = {row["path"]: (row["size_before"], row["size_after"]) for row in forward["changes"]}
    assert {row["path"]: (row["size_after"], row["size_before"]) for row in backward["changes"]} == sizes


def test_compare_to_may_belong_to_another_series(world: World) -> None:
    found = world.get(f"/archives/{world.ids['w1']}/changes", compare_to=world.ids["d1"], change="added")

    web = str(world.story.web).lstrip("/")
    assert {row["path"] for row in found["changes"]} == {web, f"{web}/index.html", f"{web}/notes.txt"}
    assert found["totals"]["removed"] > 20
    assert found["incomplete"] is False


def test_an_archive_compared_with_itself_shows_no_changes(world: World) -> None:
    found = world.get(f"/archives/{world.ids['d2']}/changes", compare_to=world.ids["d2"])

    assert (found["changes"], sum(found["totals"].values())) == ([], 0)


def test_a_prefix_matches_a_folder_or_a_file_but_never_a_longer_name(world: World) -> None:
    def under(prefix: str) -> set[str]:
        found = world.get(f"/archives/{world.ids['d2']}/changes", path_prefix=prefix)
        return {row["path"] for row in found["changes"]}

    assert under(world.at("letters")) == {world.at("letters"), world.at("letters/may.txt")}
    assert under("/" + world.at("letters") + "/") == under(world.at("letters"))
    assert under(world.at("new.txt")) == {world.at("new.txt")}
    assert under(world.at("new")) == set()
    assert under(world.at("no such folder")) == set()


def test_the_totals_count_only_changes_under_the_prefix(world: World) -> None:
    found = world.get(f"/archives/{world.ids['d2']}/changes", path_prefix=world.at("letters"))

    assert found["totals"] == {"added": 0, "removed": 1, "modified": 1}


@pytest.mark.parametrize("form", ["change", "change[]"])
def test_changes_can_be_filtered_by_kind_in_both_parameter_spellings(world: World, form: str) -> None:
    found = world.get(f"/archives/{world.ids['d2']}/changes", **{form: ["added", "removed"]})

    assert files(world, found) == {"letters/may.txt": "removed", "new.txt": "added"}
    assert found["totals"]["modified"] > 0, "the totals are of all kinds"


def test_pages_contain_each_change_once(world: World) -> None:
    whole = world.get(f"/archives/{world.ids['d2']}/changes")["changes"]
    seen: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while True:
        page = world.get(f"/archives/{world.ids['d2']}/changes", limit=2, **cursor)
        assert len(page["changes"]) <= 2
        seen += page["changes"]
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}

    assert seen == whole


def test_invalid_parameters_are_refused_with_422(world: World) -> None:
    url = f"{world.url}/archives/{world.ids['d2']}/changes"

    assert error_of(world.admin.get(url, params={"change": "renamed"})) == (422, "archives.bad_change")
    assert error_of(world.admin.get(url, params={"cursor": "nonsense"})) == (422, "paging.bad_cursor")
    assert error_of(world.admin.get(url, params={"path_b64": "%%%"})) == (422, "archives.bad_path")
    assert world.admin.get(url, params={"limit": 0}).status_code == 422


def test_compare_to_must_belong_to_the_repository(world: World) -> None:
    answer = world.admin.get(f"{world.url}/archives/{world.ids['d2']}/changes", params={"compare_to": 999_999_999})

    assert error_of(answer) == (404, "archives.not_found")


def groups(world: World, word: str, **params: Any) -> dict[str, dict[str, Any]]:
    found = world.get(f"/archives/{world.ids[word]}/changes", group_by="folder", **params)
    assert found["changes"] == []
    assert all(set(row) == GROUP for row in found["groups"])
    return {row["name"]: row for row in found["groups"]}


def counts(row: dict[str, Any]) -> tuple[int, int, int]:
    return row["added"], row["removed"], row["modified"]


def weights(row: dict[str, Any]) -> tuple[int, int, int]:
    return row["bytes_added"], row["bytes_removed"], row["bytes_net"]


def test_changes_have_byte_totals(world: World) -> None:
    """notes.txt grew from 4 to 12 bytes, new.txt was added with 4, and may.txt was removed with 4."""
    found = world.get(f"/archives/{world.ids['d2']}/changes")

    assert weights(found["byte_totals"]) == (12, 4, 8)
    assert found["groups"] is None
    letters = world.get(f"/archives/{world.ids['d2']}/changes", path_prefix=world.at("letters"), limit=1)
    assert weights(letters["byte_totals"]) == (0, 4, -4)
    first = world.get(f"/archives/{world.ids['w1']}/changes")
    assert set(first["byte_totals"].values()) == {None}


def test_changes_can_be_summed_for_each_entry_of_a_folder(world: World) -> None:
    found = groups(world, "d2", path_prefix=world.at(""))

    assert list(found) == sorted(found) == ["letters", "new.txt", "notes.txt", "script.sh"]
    assert [found[name]["type"] for name in found] == ["d", "-", "-", "-"]
    assert (counts(found["letters"]), weights(found["letters"])) == ((0, 1, 1), (0, 4, -4))
    assert (counts(found["new.txt"]), weights(found["new.txt"])) == ((1, 0, 0), (4, 0, 4))
    assert (counts(found["notes.txt"]), weights(found["notes.txt"])) == ((0, 0, 1), (8, 0, 8))
    assert weights(found["script.sh"]) == (0, 0, 0)
    assert found["letters"]["path"] == world.at("letters")


def test_groups_of_the_root_contain_all_changes(world: World) -> None:
    (top,) = groups(world, "d2").values()
    whole = world.get(f"/archives/{world.ids['d2']}/changes")

    assert top["type"] == "d"
    assert dict(zip(("added", "removed", "modified"), counts(top), strict=True)) == whole["totals"]
    assert weights(top) == weights(whole["byte_totals"])


def test_a_file_a_missing_folder_and_a_first_archive_have_no_groups(world: World) -> None:
    assert groups(world, "d2", path_prefix=world.at("notes.txt")) == {}
    assert groups(world, "d2", path_prefix=world.at("nowhere")) == {}
    assert groups(world, "w1") == {}


def test_groups_count_only_the_chosen_kinds(world: World) -> None:
    found = groups(world, "d2", path_prefix=world.at(""), change=["added", "removed"])

    assert {name: counts(row) for name, row in found.items()} == {"letters": (0, 1, 0), "new.txt": (1, 0, 0)}


def test_groups_are_paged(world: World) -> None:
    url = f"/archives/{world.ids['d2']}/changes"
    seen: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = world.get(url, group_by="folder", path_prefix=world.at(""), limit=3, **cursor)
        seen += [row["name"] for row in page["groups"]]
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}

    assert seen == ["letters", "new.txt", "notes.txt", "script.sh"]
    mixed = world.admin.get(f"{world.url}{url}", params=cursor)
    assert error_of(mixed) == (422, "paging.bad_cursor")
    unknown = world.admin.get(f"{world.url}{url}", params={"group_by": "day"})
    assert unknown.status_code == 422
