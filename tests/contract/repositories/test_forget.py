"""DELETE /api/repositories/{id}"""

from pathlib import Path

from tests.contract.fields import error_of
from tests.support.running import PASSPHRASE, Running
from tests.support.service import Client


def test_forgetting_removes_the_record_and_keeps_the_data(running: Running, admin: Client) -> None:
    repository = running.new_repository(encryption="repokey")
    job_id = admin.start_backup(repository)
    admin.wait_for_end(job_id)
    viewer = running.client_with_right(repository, "viewer")

    answer = admin.delete(f"/api/repositories/{repository['id']}")

    assert (answer.status_code, answer.content) == (204, b"")
    assert error_of(admin.get(f"/api/repositories/{repository['id']}")) == (404, "repository.not_found")
    assert error_of(admin.delete(f"/api/repositories/{repository['id']}")) == (404, "repository.not_found")
    assert len(running.outside.archives(repository["path"], PASSPHRASE)) == 1
    past = admin.operation(job_id)
    assert (past["repository"], past["repository_path"]) == (repository["name"], repository["path"])
    assert error_of(viewer.get(f"/api/operations/{job_id}")) == (404, "operations.not_found")
    assert error_of(admin.post("/api/backup/start", json={"repository": repository["path"]})) == (
        404,
        "repository.not_registered",
    )


def test_a_forgotten_repository_can_be_imported_again(running: Running, admin: Client) -> None:
    repository = running.new_repository(encryption="repokey")
    admin.delete(f"/api/repositories/{repository['id']}")

    body = {"name": repository["name"], "path": repository["path"], "passphrase": PASSPHRASE, "index_mode": "off"}
    answer = admin.post("/api/repositories/import", json=body)

    assert answer.status_code == 201, answer.text
    assert answer.json()["id"] != repository["id"], "ids are never given twice"


def test_a_repository_is_not_forgotten_while_an_operation_runs(running: Running, admin: Client) -> None:
    repository = running.new_repository()

    with running.held_backup(repository) as (job_id, _gate):
        refused = admin.delete(f"/api/repositories/{repository['id']}")
        assert error_of(refused) == (409, "repository.operation_running")
        assert refused.json()["detail"]["params"]["operation_id"] == job_id
        assert admin.get(f"/api/repositories/{repository['id']}").status_code == 200


def test_waiting_operations_of_a_forgotten_repository_are_cancelled(running: Running, admin: Client) -> None:
    """The operation waits because another repository takes the only slot that the limits leave."""
    busy, forgotten = running.new_repository(), running.new_repository()
    assert admin.put("/api/operations/limits", json={"max_running_backups": 1}).status_code == 200
    try:
        with running.held_backup(busy):
            waiting = admin.start_backup(forgotten)
            assert admin.delete(f"/api/repositories/{forgotten['id']}").status_code == 204
            assert admin.operation(waiting)["status"] == "cancelled"
    finally:
        admin.put("/api/operations/limits", json={"max_running_backups": 4})
    assert Path(forgotten["path"]).is_dir()


def test_only_an_admin_may_forget_a_repository(running: Running) -> None:
    known = running.known.repository
    operator = running.client_with_right(known, "operator")

    assert error_of(operator.delete(f"/api/repositories/{known['id']}")) == (403, "access.forbidden")
    assert error_of(running.stranger.delete(f"/api/repositories/{known['id']}")) == (404, "repository.not_found")
