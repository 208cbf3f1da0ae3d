"""GET /api/repositories/ and GET /api/repositories/{id}"""

from typing import Any

from tests.contract.fields import REPOSITORY, error_of, is_timestamp
from tests.support.running import Running
from tests.support.service import Client


def listed(client: Client) -> dict[int, dict[str, Any]]:
    answer = client.get("/api/repositories/")
    assert answer.status_code == 200, answer.text
    return {repository["id"]: repository for repository in answer.json()["repositories"]}


def test_the_list_and_the_single_repository_show_the_same_fields(running: Running, admin: Client) -> None:
    known = running.known.repository
    one = admin.get(f"/api/repositories/{known['id']}")

    assert one.status_code == 200
    assert set(one.json()) >= REPOSITORY
    assert listed(admin)[known["id"]] == one.json()


def test_a_finished_backup_updates_the_last_backup_and_the_sizes(running: Running, admin: Client) -> None:
    status = admin.get(f"/api/backup/status/{running.known.job_id}").json()
    repository = admin.get(f"/api/repositories/{running.known.repository['id']}").json()

    assert is_timestamp(repository["last_backup"])
    assert status["started_at"] <= repository["last_backup"] <= status["completed_at"]
    assert repository["total_size"] >= status["progress_details"]["original_size"] > 0
    assert repository["unique_size"] > 0
    assert repository["last_check"] is repository["last_prune"] is repository["last_compact"] is None
    assert repository["running_operation"] is None


def test_a_running_operation_is_shown(running: Running, admin: Client) -> None:
    repository = running.new_repository()

    with running.held_backup(repository) as (job_id, _gate):
        shown = admin.get(f"/api/repositories/{repository['id']}").json()["running_operation"]
        assert (shown["id"], shown["kind"], shown["status"]) == (job_id, "backup", "running")
        assert is_timestamp(shown["started_at"])
    assert admin.get(f"/api/repositories/{repository['id']}").json()["running_operation"] is None


def test_reads_of_the_record_never_run_the_engine(running: Running, admin: Client) -> None:
    known = running.known
    admin.get("/api/system/info")  # queries the version of each program once
    calls = running.engine_calls()

    for path in (
        "/api/repositories/",
        f"/api/repositories/{known.repository['id']}",
        f"/api/backup/status/{known.job_id}",
        "/api/backup/jobs",
        f"/api/backup/logs/{known.job_id}/stream",
        f"/api/backup/logs/{known.job_id}/download",
        "/api/operations/",
        "/api/operations/queue",
        "/api/operations/repositories",
        f"/api/operations/repositories/{known.repository['id']}",
        f"/api/operations/{known.job_id}",
        f"/api/operations/{known.job_id}/logs",
        "/api/system/info",
        "/health/ready",
    ):
        assert admin.get(path).status_code == 200, path
    assert running.engine_calls() == calls
    assert any(" create " in call for call in calls), "calls are recorded"


def test_an_unknown_repository_is_not_found(admin: Client) -> None:
    for wrong in (0, -1, 999_999, 2**62):
        assert error_of(admin.get(f"/api/repositories/{wrong}")) == (404, "repository.not_found")
    for malformed in ("abc", "1.5", 2**64):
        assert admin.get(f"/api/repositories/{malformed}").status_code == 422


def test_a_user_sees_exactly_the_repositories_they_have_rights_to(running: Running) -> None:
    known, other = running.known.repository, running.new_repository()
    viewer = running.client_with_right(known, "viewer")

    assert set(listed(viewer)) == {known["id"]}
    assert viewer.get(f"/api/repositories/{known['id']}").status_code == 200
    assert error_of(viewer.get(f"/api/repositories/{other['id']}")) == (404, "repository.not_found")
    assert listed(running.stranger) == {}


def test_a_role_on_all_repositories_includes_new_ones(running: Running) -> None:
    everywhere = running.client_of(running.new_user("viewer", all_repositories_role="viewer"))

    created = running.new_repository()

    assert {created["id"], running.known.repository["id"]} <= set(listed(everywhere))


def test_the_list_is_ordered_by_name(running: Running, admin: Client) -> None:
    for _ in range(2):
        running.new_repository()
    names = [repository["name"] for repository in admin.get("/api/repositories/").json()["repositories"]]

    assert len(names) > 1
    assert names == sorted(names)
