"""How a repository has grown."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.contract.archives.world import World, run_index
from tests.contract.fields import error_of, is_timestamp
from tests.support.running import Running


def test_each_day_with_archives_shows_how_much_was_backed_up(world: World) -> None:
    found = world.get("/sizes")

    archives = world.get("/archives", limit=100)["archives"]
    sizes = {archive["id"]: archive["original_size"] for archive in archives}
    days = {moment.astimezone(UTC).date() for moment in world.times.values()}
    assert [datetime.fromisoformat(one["at"]).date() for one in found["data"]] == sorted(days)
    assert found["data"][-1]["original_size"] == sizes[world.ids["d3"]] + sizes[world.ids["w2"]]
    assert all(is_timestamp(one["at"]) and one["new_bytes"] >= 0 for one in found["data"])


def test_a_measured_repository_has_one_point_per_day(world: World) -> None:
    run_index(world.admin, world.repository, "rebuild", **{"from": "stats"})
    run_index(world.admin, world.repository, "rebuild", **{"from": "stats"})

    today = [one for one in world.get("/sizes")["points"] if one["at"][:10] == datetime.now(UTC).date().isoformat()]
    repository = world.get("")
    assert len(today) == 1, "the last measurement of a day counts"
    assert (today[0]["total_size"], today[0]["unique_size"]) == (repository["total_size"], repository["unique_size"])
    assert today[0]["archive_count"] == 5


def test_only_days_within_the_span_are_returned(world: World) -> None:
    last = max(world.times.values()).astimezone(UTC).date()
    found = world.get("/sizes", since=last.isoformat(), until=last.isoformat())

    assert (found["since"], found["until"]) == (last.isoformat(), last.isoformat())
    assert [one["at"][:10] for one in found["data"]] == [last.isoformat()]
    before = last - timedelta(days=4000)
    assert world.get("/sizes", since=before.isoformat(), until=before.isoformat())["data"] == []


def test_operations_that_shrink_a_repository_are_marked(running: Running) -> None:
    repository = running.new_repository(index_mode="archives")
    admin, url = running.admin, f"/api/repositories/{repository['id']}"
    assert admin.wait_for_end(admin.start_backup(repository))["status"] == "completed"
    job = admin.post(f"{url}/compact", json={}).json()["job_id"]
    assert admin.wait_for_end(job)["status"] == "completed"

    found = admin.get(f"{url}/sizes").json()

    assert [(one["operation_id"], one["kind"]) for one in found["marks"]] == [(job, "compact")]
    assert 0 < found["storage"]["free_bytes"] < found["storage"]["total_bytes"]
    assert is_timestamp(found["storage"]["measured_at"])


@pytest.mark.parametrize(
    "span",
    [
        {"since": "2026-01-02", "until": "2026-01-01"},
        {"since": "2000-01-01", "until": "2026-01-01"},
        {"until": "0001-01-01"},
        {"since": "9999-12-31", "until": "9999-12-31"},
    ],
)
def test_an_invalid_span_is_refused(world: World, span: dict[str, Any]) -> None:
    assert error_of(world.admin.get(f"{world.url}/sizes", params=span)) == (422, "archives.bad_span")


def test_a_user_without_rights_gets_404(world: World) -> None:
    assert error_of(world.running.stranger.get(f"{world.url}/sizes")) == (404, "repository.not_found")
