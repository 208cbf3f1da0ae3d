"""POST /api/repositories/{id}/break-lock"""

import pytest

from tests.contract.fields import error_of
from tests.support.running import Running, Services
from tests.support.service import Client


@pytest.mark.parametrize("engine", ["1.2", "1.4"])
def test_a_stale_lock_of_another_host_stays_until_a_user_breaks_it(services: Services, engine: str) -> None:
    running = services.get(engine=engine)
    repository = running.new_repository()
    operator = running.client_with_right(repository, "operator")
    running.outside.leave_lock(repository["path"])

    failed = running.admin.wait_for_end(operator.start_backup(repository))
    assert (failed["status"], failed["error_key"]) == ("failed", "engine.locked")

    answer = operator.post(f"/api/repositories/{repository['id']}/break-lock")
    assert answer.status_code == 200, answer.text
    assert answer.json()["repository_id"] == repository["id"]
    assert running.admin.wait_for_end(operator.start_backup(repository))["status"] == "completed"


def test_a_lock_in_use_is_not_broken(running: Running, admin: Client) -> None:
    repository = running.new_repository()

    with running.held_backup(repository) as (job_id, gate):
        refused = admin.post(f"/api/repositories/{repository['id']}/break-lock")
        assert error_of(refused) == (409, "repository.operation_running")
        assert refused.json()["detail"]["params"]["operation_id"] == job_id
        gate.open()
        assert admin.wait_for_end(job_id)["status"] == "completed"
    assert admin.post(f"/api/repositories/{repository['id']}/break-lock").status_code == 200


def test_a_viewer_may_not_break_a_lock(running: Running) -> None:
    known = running.known.repository
    viewer = running.client_with_right(known, "viewer")
    path = f"/api/repositories/{known['id']}/break-lock"

    assert error_of(viewer.post(path)) == (403, "access.forbidden")
    assert error_of(running.stranger.post(path)) == (404, "repository.not_found")
    assert error_of(running.admin.post("/api/repositories/999999/break-lock")) == (404, "repository.not_found")
