"""The archive list and single archives, from the index and from the engine."""

import base64
import json
from datetime import timedelta, timezone
from typing import Any
from urllib.parse import quote

import pytest

from tests.contract.archives.world import ARCHIVE, World, get
from tests.contract.fields import error_of, is_timestamp
from tests.support.service import wait_until

LIVE = {"name", "id", "start", "end", "comment", "hostname", "username", "series", "archive_id"}


def words(world: World, archives: list[dict[str, Any]]) -> list[str | None]:
    return [world.word(archive["id"]) for archive in archives]


def test_the_list_contains_every_archive_newest_first_with_all_fields(world: World) -> None:
    found = world.get("/archives")

    assert set(found) == {
        *("archives", "series", "sync_state", "last_synced_at", "unavailable_reason", "history_available"),
        *("next_cursor", "total"),
    }
    assert found["total"] == 5
    assert found["unavailable_reason"] is None
    assert words(world, found["archives"]) == ["d3", "w2", "d2", "w1", "d1"]
    assert found["series"] == ["docs", "web"]
    assert found["sync_state"] == "fresh"
    assert is_timestamp(found["last_synced_at"])
    assert found["history_available"] is True
    assert found["next_cursor"] is None
    for archive in found["archives"]:
        assert set(archive) == ARCHIVE | {"proven_at", "keep_rule"}
        assert (archive["proven_at"], archive["keep_rule"]) == (None, None)
        times = {name for name in ARCHIVE if name.endswith("_at") or name in ("start", "end")} - {
            "lost_at",
            "protected_at",
        }
        assert all(is_timestamp(archive[name]) for name in times)
        assert (archive["lost_at"], archive["protected_at"]) == (None, None)


def test_an_archive_created_elsewhere_is_measured_and_indexed(world: World) -> None:
    archive = world.get(f"/archives/{world.ids['d1']}")

    assert archive["start"] == world.times["d1"].isoformat(timespec="microseconds")
    assert archive["series"] == "docs"
    assert archive["nfiles"] == 21
    assert archive["original_size"] > 0
    assert archive["deduplicated_size"] >= 0
    assert archive["compressed_size"] > 0
    assert archive["duration_seconds"] >= 0
    assert archive["history_state"] == "indexed"
    assert archive["history_rows"] > 21, "folders count too"
    assert archive["history_truncated"] is False
    assert archive["backup_operation_id"] is None
    assert archive["hostname"]
    assert archive["username"]
    assert len(archive["engine_id"]) == 64


def test_a_single_archive_names_its_neighbours_in_its_own_series(world: World) -> None:
    first, middle, last = (world.get(f"/archives/{world.ids[word]}") for word in ("d1", "d2", "d3"))

    assert set(middle) == ARCHIVE | {
        "history_error",
        "history_error_key",
        "predecessor_id",
        "successor_id",
        "predecessor_stats",
        "actions",
        "refusals",
    }
    assert (first["predecessor_id"], first["successor_id"]) == (None, world.ids["d2"])
    assert first["predecessor_stats"] is None
    assert (middle["predecessor_id"], middle["successor_id"]) == (world.ids["d1"], world.ids["d3"])
    assert (last["predecessor_id"], last["successor_id"]) == (world.ids["d2"], None)
    assert middle["predecessor_stats"]["nfiles"] == first["nfiles"]
    assert middle["predecessor_stats"]["original_size"] == first["original_size"]


def test_a_series_filter_lists_only_that_series_but_still_names_all_of_them(world: World) -> None:
    found = world.get("/archives", series="web")

    assert words(world, found["archives"]) == ["w2", "w1"]
    assert found["series"] == ["docs", "web"]
    assert world.get("/archives", series="no such series")["archives"] == []


def test_since_and_until_accept_any_offset_and_are_compared_in_utc(world: World) -> None:
    east = timezone(timedelta(hours=5, minutes=30))
    start = world.times["d2"].astimezone(east).isoformat()
    end = world.times["w2"].astimezone(timezone(timedelta(hours=-8))).isoformat()

    assert words(world, world.get("/archives", since=start)["archives"]) == ["d3", "w2", "d2"]
    assert words(world, world.get("/archives", until=start)["archives"]) == ["d2", "w1", "d1"]
    assert words(world, world.get("/archives", since=start, until=end)["archives"]) == ["w2", "d2"]


def test_a_time_with_an_offset_is_not_taken_as_utc(world: World) -> None:
    # The same wall clock time two hours further east is two hours earlier.
    wall_clock = world.times["d2"].replace(tzinfo=timezone(timedelta(hours=2))) + timedelta(hours=1)

    assert words(world, world.get("/archives", since=wall_clock.isoformat())["archives"]) == ["d3", "w2", "d2"]


@pytest.mark.parametrize("query", ["since=yesterday", "until=2026-13-01T00:00:00Z", "limit=0", "limit=1001"])
def test_an_unreadable_filter_is_refused_with_422(world: World, query: str) -> None:
    assert world.admin.get(f"{world.url}/archives?{query}").status_code == 422


def test_pages_contain_every_archive_once_in_order(world: World) -> None:
    seen: list[str | None] = []
    cursor = None
    for _ in range(3):
        page = world.get("/archives", limit=2, **({"cursor": cursor} if cursor else {}))
        seen += words(world, page["archives"])
        cursor = page["next_cursor"]

    assert seen == ["d3", "w2", "d2", "w1", "d1"]
    assert cursor is None


@pytest.mark.parametrize("sort", ["start", "name", "nfiles", "original_size", "deduplicated_size"])
def test_pages_contain_every_archive_once_in_each_sort_order(world: World, sort: str) -> None:
    everything = {one["id"]: one for one in world.get("/archives")["archives"]}

    for order in (sort, f"-{sort}"):
        seen: list[int] = []
        cursor = None
        while cursor is not None or not seen:
            page = world.get("/archives", limit=2, sort=order, **({"cursor": cursor} if cursor else {}))
            assert page["total"] == 5
            seen += [archive["id"] for archive in page["archives"]]
            cursor = page["next_cursor"]
        is_reversed = order.startswith("-")
        assert seen == sorted(everything, key=lambda number: (everything[number][sort], number), reverse=is_reversed)


def test_a_query_narrows_the_list_by_name_and_ignores_case(world: World) -> None:
    name = world.names["w1"]

    found = world.get("/archives", q=name.upper())

    assert (words(world, found["archives"]), found["total"]) == (["w1"], 1)
    assert world.get("/archives", q="%")["total"] == 0
    assert world.get("/archives", q="_no_such_")["total"] == 0


@pytest.mark.parametrize("query", ["q=", "sort=color", "sort=--start", "rules=perhaps"])
def test_an_unknown_list_parameter_value_is_refused_with_422(world: World, query: str) -> None:
    assert world.admin.get(f"{world.url}/archives?{query}").status_code == 422


def test_a_cursor_of_another_sort_order_is_refused(world: World) -> None:
    cursor = world.get("/archives", limit=2, sort="nfiles")["next_cursor"]

    answer = world.admin.get(f"{world.url}/archives", params={"sort": "name", "cursor": cursor})

    assert error_of(answer) == (422, "paging.bad_cursor")


def test_the_list_shows_which_archives_were_proven_and_which_rule_keeps_each(world: World) -> None:
    running = world.running
    repository = running.new_repository(index_mode="full", retention={"keep_last": 1})
    for _ in range(2):
        running.admin.wait_for_end(running.admin.start_backup(repository))
    base = f"/api/repositories/{repository['id']}"
    newest, oldest = wait_until(
        lambda: (listed := get(running.admin, f"{base}/archives")["archives"]) and len(listed) == 2 and listed,
        what="both archives are listed",
    )
    body = {"archive_id": oldest["id"], "full_archive": True}
    job = running.admin.post(f"{base}/restore-check", json=body).json()["job_id"]
    proof = running.admin.wait_for_end(job)

    found = get(running.admin, f"{base}/archives", rules=True)["archives"]

    assert [(one["id"], one["proven_at"]) for one in found] == [
        (newest["id"], None),
        (oldest["id"], proof["completed_at"]),
    ]
    assert found[0]["keep_rule"]
    assert found[1]["keep_rule"] is None


@pytest.mark.parametrize("parts", [["x"], [1], ["2026-01-01T00:00:00", 1], ["yesterday", 2], ["2026-01-01", "2"]])
def test_a_forged_cursor_is_refused_with_422(world: World, parts: list[object]) -> None:
    forged = base64.urlsafe_b64encode(json.dumps(parts).encode()).decode().rstrip("=")

    for cursor in (forged, "nonsense"):
        answer = world.admin.get(f"{world.url}/archives", params={"cursor": cursor})
        assert error_of(answer) == (422, "paging.bad_cursor")


def test_the_live_listing_comes_from_the_engine_at_both_addresses(world: World) -> None:
    first = world.get("/archives/live")
    second = get(world.admin, world.url.replace("/api/", "/api/v2/") + "/archives/live")

    assert first == second
    assert set(first) == {"archives", "source"}
    assert first["source"] == "engine"
    assert {one["name"]: one["archive_id"] for one in first["archives"]} == {
        world.names[word]: number for word, number in world.ids.items()
    }
    assert all(set(one) == LIVE for one in first["archives"])
    assert {one["series"] for one in first["archives"]} == {"docs", "web"}


@pytest.mark.parametrize("by", ["repository", "repository_id"])
def test_the_deprecated_list_is_marked_as_such_and_links_to_its_successor(world: World, by: str) -> None:
    value = world.repository["path" if by == "repository" else "id"]
    answer = world.admin.get("/api/archives/list", params={by: value})

    assert answer.status_code == 200
    assert answer.headers["Deprecation"] == "true"
    assert answer.headers["Link"] == f'<{world.url}/archives>; rel="successor-version"'
    assert answer.json() == world.get("/archives/live")


def test_the_deprecated_list_requires_a_registered_repository(world: World) -> None:
    assert error_of(world.admin.get("/api/archives/list")) == (422, "archives.which_repository")
    unknown = world.admin.get("/api/archives/list", params={"repository": "/nowhere"})
    assert error_of(unknown) == (404, "repository.not_registered")


def test_reading_the_index_never_runs_the_engine(listed_world: World) -> None:
    world = listed_world
    before = world.running.engine_calls()
    for path in (
        *(
            "/archives",
            "/archives/heatmap",
            "/status",
            "/search?q=notes",
            f"/history?path={quote(world.at('notes.txt'))}",
        ),
        *(f"/archives/{world.ids['d2']}{rest}" for rest in ("", "/changes", "/browse")),
    ):
        answer = world.admin.get(f"{world.url}{path}")
        assert answer.status_code == 200, answer.text

    assert world.running.engine_calls() == before


# --- who may read ---------------------------------------------------------------------------------------------------

READS = (
    *("/archives", "/archives/live", "/archives/heatmap", "/status", "/search?q=a", "/history?path=a"),
    *("/archives/{archive}", "/archives/{archive}/changes", "/archives/{archive}/browse"),
)


@pytest.mark.parametrize("path", READS)
def test_reading_a_repository_without_a_right_on_it_returns_404(world: World, path: str) -> None:
    answer = world.running.stranger.get(f"{world.url}{path.format(archive=world.ids['d1'])}")

    assert error_of(answer)[0] == 404


def test_the_deprecated_list_does_not_disclose_a_repository(world: World) -> None:
    answer = world.running.stranger.get("/api/archives/list", params={"repository": world.repository["path"]})

    assert error_of(answer) == (404, "repository.not_registered")


def test_a_viewer_may_read_everything_and_start_nothing(world: World) -> None:
    viewer = world.running.client_with_right(world.repository, "viewer")

    for path in READS:
        assert viewer.get(f"{world.url}{path.format(archive=world.ids['d1'])}").status_code == 200, path
    for path, body in (("/rebuild", {"from": "stats"}), ("/resync", None)):
        assert error_of(viewer.post(f"{world.url}{path}", json=body))[0] == 403


@pytest.mark.parametrize("path", READS)
def test_reading_requires_a_credential(world: World, path: str) -> None:
    answer = world.running.anonymous().get(f"{world.url}{path.format(archive=world.ids['d1'])}")

    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize("rest", ["", "/changes", "/browse"])
@pytest.mark.parametrize("archive", [999_999_999, 0, -1])
def test_a_missing_archive_returns_404(world: World, archive: int, rest: str) -> None:
    assert error_of(world.admin.get(f"{world.url}/archives/{archive}{rest}")) == (404, "archives.not_found")


def test_an_archive_of_another_repository_returns_404(world: World) -> None:
    other = world.running.new_repository()
    url = f"/api/repositories/{other['id']}/archives/{world.ids['d1']}"

    for rest in ("", "/changes", "/browse"):
        assert error_of(world.admin.get(f"{url}{rest}")) == (404, "archives.not_found")


def test_a_new_repository_has_never_been_synced(world: World) -> None:
    other = world.running.new_repository()

    found = get(world.admin, f"/api/repositories/{other['id']}/archives")

    assert (found["sync_state"], found["archives"], found["series"]) == ("never", [], [])
    assert found["last_synced_at"] is None
    assert found["history_available"] is False, "its index mode is off"
