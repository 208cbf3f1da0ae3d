"""Files that would no longer exist anywhere after archives are deleted."""

from typing import Any

import pytest

from tests.contract.archives.world import World
from tests.contract.fields import error_of, is_timestamp


def losses(world: World, *words: str, **more: Any) -> dict[str, Any]:
    body = {"archive_ids": [world.ids[word] for word in words], **more}
    answer = world.admin.post(f"{world.url}/losses", json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_files_that_only_the_deleted_archives_contain_would_be_lost(world: World) -> None:
    hits = world.get("/search", q="e", limit=500)["results"]
    going = [word for word in world.ids if word.startswith("d")]

    found = losses(world, *going, limit=1000)

    lost = {one["path"]: one for one in found["sample"]}
    assert {hit["path"] for hit in hits if hit["series"] == ["docs"]} <= lost.keys()
    assert not {hit["path"] for hit in hits if "web" in hit["series"]} & lost.keys()
    assert found["paths_lost"] == len(lost)
    assert found["versions_lost"] > found["paths_lost"]
    assert found["freed_bytes_at_most"] > sum(one["size"] for one in lost.values() if one["type"] == "-")
    assert world.word(lost[world.at("keep.md")]["last_archive_id"]) == "d3"
    assert all(is_timestamp(one["last_archive_start"]) for one in lost.values())
    assert (found["archives"], found["archives_left"]) == (3, 2)
    assert (found["going"]["indexed"], found["staying"]["indexed"]) == (3, 2)


def test_nothing_is_lost_if_other_archives_contain_the_same_files(world: World) -> None:
    assert losses(world, "d1")["paths_lost"] == 0


def test_pages_contain_every_lost_path_once(world: World) -> None:
    whole = [one["path"] for one in losses(world, *world.ids, limit=1000)["sample"]]

    paged: list[str] = []
    cursor: dict[str, Any] = {}
    while True:
        page = losses(world, *world.ids, limit=4, **cursor)
        paged += [one["path"] for one in page["sample"]]
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}

    assert sorted(paged) == sorted(whole)
    assert len(whole) == page["paths_lost"] > 0


@pytest.mark.parametrize("policy", [{"keep_last": 1}, {"keep_daily": 1, "keep_within": "5d"}])
def test_the_losses_of_a_policy_are_those_of_the_archives_it_would_remove(world: World, policy: dict[str, Any]) -> None:
    """A protected archive is kept, whatever the policy."""
    protected = f"{world.url}/archives/{world.ids['d2']}"
    assert world.admin.put(protected, json={"protected": True}).status_code == 200
    try:
        simulation = world.admin.post(f"{world.url}/retention/simulate", json={"policy": policy}).json()["simulated"]
        answer = world.admin.post(f"{world.url}/losses", json={"policy": policy, "limit": 20})
    finally:
        assert world.admin.put(protected, json={"protected": False}).status_code == 200
    going = [world.word(one["archive_id"]) for one in simulation["archives"] if one["rule"] is None]

    assert answer.status_code == 200, answer.text
    assert answer.json() == simulation["losses"]
    assert answer.json()["archives"] == len(going) > 0
    assert "d2" not in going


def test_pages_of_the_losses_of_a_policy_do_not_overlap(world: World) -> None:
    body = {"policy": {"keep_last": 1}, "limit": 3}
    first = world.admin.post(f"{world.url}/losses", json=body).json()
    second = world.admin.post(f"{world.url}/losses", json={**body, "cursor": first["next_cursor"]}).json()

    assert not {one["path"] for one in first["sample"]} & {one["path"] for one in second["sample"]}
    assert first["paths_lost"] == second["paths_lost"] > len(first["sample"])


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"policy": {}}, (422, "prune.empty_policy")),
        ({"policy": {"keep_within": "5M"}}, (422, "engine.invalid_request")),
        ({"policy": {"keep_last": 1}, "archive_ids": [1]}, None),
        ({"limit": 5}, None),
        ({"archive_ids": [999_999]}, (404, "archives.not_found")),
        ({"archive_ids": []}, None),
        ({}, None),
        ({"archive_ids": [1], "limit": 0}, None),
        ({"archive_ids": [1], "policy": {}}, None),
    ],
)
def test_invalid_requests_and_missing_archives_are_refused(
    world: World, body: dict[str, Any], error: tuple[int, str] | None
) -> None:
    answer = world.admin.post(f"{world.url}/losses", json=body)

    assert (answer.status_code if error is None else error_of(answer)) == (error or 422)


def test_an_invalid_cursor_is_refused(world: World) -> None:
    body = {"archive_ids": list(world.ids.values()), "cursor": "nonsense"}

    assert error_of(world.admin.post(f"{world.url}/losses", json=body)) == (422, "paging.bad_cursor")


def test_a_user_without_rights_gets_404(world: World) -> None:
    body = {"archive_ids": [world.ids["d1"]]}
    answer = world.running.stranger.post(f"{world.url}/losses", json=body)

    assert error_of(answer) == (404, "repository.not_found")
