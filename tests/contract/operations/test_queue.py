"""GET /api/operations/queue, PUT /limits, POST /pause and /resume"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.contract.fields import LANE, LIMITS, MORE_OPERATION, OPERATION, error_of, is_timestamp
from tests.contract.stores import both_stores
from tests.support.running import Running
from tests.support.service import Client

ADMINISTRATION: list[tuple[str, str, dict[str, Any] | None]] = [
    ("PUT", "/api/operations/limits", {"max_running_total": 5}),
    ("POST", "/api/operations/pause", None),
    ("POST", "/api/operations/resume", None),
    ("POST", "/api/operations/reconcile", None),
]


def queue_of(client: Client) -> dict[str, Any]:
    answer = client.get("/api/operations/queue")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def lane_of(client: Client, repository: dict[str, Any]) -> dict[str, Any] | None:
    lanes = queue_of(client)["repositories"]
    return next((lane for lane in lanes if lane["repository_id"] == repository["id"]), None)


@contextmanager
def limits(running: Running, **wanted: int) -> Iterator[None]:
    assert running.admin.put("/api/operations/limits", json=wanted).status_code == 200
    try:
        yield
    finally:
        assert running.admin.put("/api/operations/limits", json=LIMITS).json() == LIMITS


@contextmanager
def paused(running: Running) -> Iterator[None]:
    assert running.admin.post("/api/operations/pause").json() == {"paused": True}
    try:
        yield
    finally:
        assert running.admin.post("/api/operations/resume").json() == {"paused": False}


def test_the_queue_of_an_idle_service_shows_its_limits_and_its_runner(running: Running) -> None:
    running.wait_until_idle()

    queue = queue_of(running.admin)

    assert set(queue) == {"repositories", "limits", "paused", "runners"}
    assert queue["limits"] == {**LIMITS, "running": dict.fromkeys(LIMITS, 0)}
    assert queue["paused"] is False
    (runner,) = queue["runners"]
    assert set(runner) == {"id", "host", "heartbeat_at", "running"}
    assert is_timestamp(runner["heartbeat_at"])
    assert runner["running"] == 0


@both_stores
def test_a_lane_shows_its_holder_and_why_other_operations_wait(running: Running) -> None:
    repository = running.scratch
    running.wait_until_idle()
    with running.held_backup(repository) as (holder, _gate):
        waiting = running.admin.start_backup(repository)
        queue = queue_of(running.admin)
        lane = lane_of(running.admin, repository)
        assert lane is not None
        assert set(lane) == LANE
        assert (lane["repository_name"], lane["lane_busy"]) == (repository["name"], True)
        assert (lane["lane_holder"]["id"], lane["lane_holder"]["kind"]) == (holder, "backup")
        assert lane["lane_holder"]["status"] == "running"
        assert is_timestamp(lane["lane_holder"]["started_at"])
        assert lane["lane_holders"] == [lane["lane_holder"]]
        assert [operation["id"] for operation in lane["operations"]] == [holder, waiting]
        first, second = lane["operations"]
        assert set(first) == OPERATION | MORE_OPERATION
        assert (first["queued_reason"], first["queued_behind_id"]) == (None, None)
        assert (second["queued_reason"], second["queued_behind_id"]) == ("repository_busy", holder)
        assert queue["limits"]["running"]["max_running_backups"] == 1
        assert queue["limits"]["running"]["max_running_total"] == 1
        assert [runner["running"] for runner in queue["runners"]] == [1]
        running.admin.post(f"/api/operations/{waiting}/cancel")


def test_a_user_sees_the_lanes_of_visible_repositories_and_no_runners(running: Running) -> None:
    repository = running.scratch
    viewer = running.client_with_right(repository, "viewer")
    with running.held_backup(repository):
        assert [lane["repository_id"] for lane in queue_of(viewer)["repositories"]] == [repository["id"]]
        assert queue_of(running.stranger)["repositories"] == []
        assert queue_of(viewer)["runners"] == queue_of(running.stranger)["runners"] == []


@both_stores
def test_a_changed_limit_applies_immediately_without_a_restart(running: Running) -> None:
    one, other = running.scratch, running.new_repository()
    running.wait_until_idle()
    with running.held_backup(one), limits(running, max_running_backups=1):
        waiting = running.admin.start_backup(other)
        lane = lane_of(running.admin, other)
        assert lane is not None
        assert (lane["lane_busy"], lane["lane_holder"], lane["lane_holders"]) == (False, None, [])
        (operation,) = lane["operations"]
        assert (operation["status"], operation["queued_reason"]) == ("pending", "limit_reached")
        assert operation["queued_behind_id"] is None

        raised = running.admin.put("/api/operations/limits", json={"max_running_backups": 2})

        assert raised.json() == {**LIMITS, "max_running_backups": 2}
        assert running.admin.wait_for_end(waiting)["status"] == "completed"


def test_the_total_limit_applies_whatever_the_other_limits_allow(running: Running) -> None:
    held, other = running.scratch, running.new_repository()
    with running.held_backup(held), limits(running, max_running_total=1, max_running_maintenance=64):
        check = running.admin.post(f"/api/repositories/{other['id']}/check", json={})
        operation = running.admin.operation(check.json()["job_id"])
        assert (operation["status"], operation["queued_reason"]) == ("pending", "limit_reached")
        running.admin.post(f"/api/operations/{operation['id']}/cancel")


@pytest.mark.parametrize("name", sorted(LIMITS))
def test_every_limit_must_be_a_whole_number_from_1_to_64(running: Running, name: str) -> None:
    for wrong in (0, 65, -1, 1.5, "4", True, [4]):
        answer = running.admin.put("/api/operations/limits", json={name: wrong})
        assert answer.status_code == 422, (wrong, answer.text)
    assert queue_of(running.admin)["limits"][name] == LIMITS[name]
    for right in (1, 64):
        with limits(running, **{name: right}):
            assert queue_of(running.admin)["limits"][name] == right


def test_unknown_limits_are_refused_and_limits_change_all_or_none(running: Running) -> None:
    for body in ({"max_running_backups": 3, "max_running_total": 65}, {"max_running_backups": 3, "more": 1}, []):
        assert running.admin.put("/api/operations/limits", json=body).status_code == 422
    assert running.admin.put("/api/operations/limits", json={}).json() == LIMITS


@both_stores
def test_a_pause_holds_only_follow_up_and_reconcile_operations(running: Running) -> None:
    repository = running.new_repository(source_paths=[running.new_path("missing")])  # so that each ends immediately
    with paused(running):
        held = [running.enqueue_backup(repository, trigger) for trigger in ("followup", "reconcile")]
        free = [running.enqueue_backup(repository, trigger) for trigger in ("schedule", "retry", "import")]
        manual = running.admin.start_backup(repository)

        for job_id in (manual, *free):
            assert running.admin.wait_for_end(job_id)["status"] == "failed"
        assert queue_of(running.admin)["paused"] is True
        for job_id in held:
            operation = running.admin.operation(job_id)
            assert (operation["status"], operation["queued_reason"]) == ("pending", "paused")
        assert running.admin.post("/api/operations/pause").json() == {"paused": True}, "twice is once"
    for job_id in held:
        assert running.admin.wait_for_end(job_id)["status"] == "failed"
    assert queue_of(running.admin)["paused"] is False


@pytest.mark.parametrize(
    ("method", "path", "body"), ADMINISTRATION, ids=[path.rsplit("/", 1)[1] for _, path, _ in ADMINISTRATION]
)
def test_only_an_administrator_may_change_limits_pause_resume_or_reconcile(
    running: Running, method: str, path: str, body: dict[str, Any] | None
) -> None:
    before = queue_of(running.admin)
    operator = running.client_of(running.new_user("operator", all_repositories_role="operator"))

    assert error_of(operator.request(method, path, json=body)) == (403, "access.forbidden")
    assert error_of(running.anonymous().request(method, path, json=body)) == (401, "auth.credential_missing")
    after = queue_of(running.admin)
    assert (after["limits"], after["paused"]) == (before["limits"], before["paused"])


def test_changes_of_limits_and_pauses_are_audited(running: Running) -> None:
    with limits(running, max_running_index=3), paused(running):
        pass

    entries = running.admin.get("/api/audit", params={"limit": 50}).json()["entries"]

    actions = [entry["action"] for entry in entries if entry["action"].startswith("operations.")]
    assert actions[:4] == ["operations.limits", "operations.resume", "operations.pause", "operations.limits"]
