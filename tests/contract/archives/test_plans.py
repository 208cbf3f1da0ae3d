"""What the plan `community` does not include."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.archives.world import get, no_tick, wait_for_index
from tests.contract.fields import error_of
from tests.support.running import Running, Services

REFUSAL = {"key", "feature", "required", "current", "message", "params"}


@pytest.fixture(scope="module")
def community(services: Services) -> Iterator[Running]:
    with services.own(HOLDFAST_PLAN="community") as running:
        no_tick(running.admin)
        yield running


@pytest.fixture(scope="module")
def repository(community: Running) -> dict[str, Any]:
    """A repository in the mode `full` with one archive."""
    made = community.new_repository(index_mode="full")
    assert community.admin.wait_for_end(community.admin.start_backup(made))["status"] == "completed"
    wait_for_index(community.admin, made)
    return made


@pytest.fixture(scope="module")
def archive(community: Running, repository: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = get(community.admin, f"/api/repositories/{repository['id']}/archives")["archives"][0]
    return found


def test_routes_of_the_pro_plan_are_refused_with_the_required_plan(
    community: Running, repository: dict[str, Any], archive: dict[str, Any]
) -> None:
    for path in (f"/archives/{archive['id']}/changes", "/history?path=a", "/search?q=a"):
        answer = community.admin.get(f"/api/repositories/{repository['id']}{path}")
        assert error_of(answer) == (403, "plan.feature_not_available")
        detail = answer.json()["detail"]
        assert set(detail) == REFUSAL
        assert (detail["feature"], detail["required"], detail["current"]) == ("archive_history", "pro", "community")


def test_a_rebuild_of_history_is_refused_and_starts_nothing(community: Running, repository: dict[str, Any]) -> None:
    url = f"/api/repositories/{repository['id']}/rebuild"
    before = get(community.admin, "/api/operations/", repository_id=repository["id"])["items"]

    answer = community.admin.post(url, json={"from": "history"})

    assert error_of(answer) == (403, "plan.feature_not_available")
    assert get(community.admin, "/api/operations/", repository_id=repository["id"])["items"] == before


def test_a_rebuild_of_archives_runs_without_the_history_stage(community: Running, repository: dict[str, Any]) -> None:
    answer = community.admin.post(f"/api/repositories/{repository['id']}/rebuild", json={"from": "archives"})
    kinds = [community.admin.wait_for_end(one)["kind"] for one in answer.json()["operations"]]

    assert kinds == ["archives", "stats"]
    assert answer.json()["repeats"] is True


def test_follow_ups_build_no_history(community: Running, repository: dict[str, Any], archive: dict[str, Any]) -> None:
    items = get(community.admin, "/api/operations/", repository_id=repository["id"])["items"]

    assert {one["kind"] for one in items} == {"backup", "archives", "stats"}
    assert archive["history_state"] == "skipped"
    assert get(community.admin, f"/api/repositories/{repository['id']}/archives")["history_available"] is False


def test_the_rest_of_the_index_still_works(
    community: Running, repository: dict[str, Any], archive: dict[str, Any]
) -> None:
    url = f"/api/repositories/{repository['id']}"

    heatmap = get(community.admin, f"{url}/archives/heatmap")
    assert heatmap["flags_available"]["outliers"] is False
    assert heatmap["repository"]["days"][0]["anomalies"] == []
    status = get(community.admin, f"{url}/status")
    assert status["overdue_available"] is False
    assert {cell["overdue"] for cell in status["cells"]} == {None}
    assert get(community.admin, f"{url}/archives/{archive['id']}/browse")["source"] == "engine"
    assert get(community.admin, f"{url}/archives/live")["source"] == "engine"
