"""POST /api/repositories/{id}/confirm-relocation"""

import shutil

import pytest

from tests.contract.fields import error_of
from tests.support.running import PASSPHRASE, Running, Services


@pytest.mark.parametrize("engine", ["1.2", "1.4"])
def test_a_repository_that_appears_moved_is_used_only_after_an_admin_confirms(services: Services, engine: str) -> None:
    """A copy was imported, so the engine last saw the repository at the copy's path and now finds it at the old one."""
    running = services.get(engine=engine)
    admin = running.admin
    known = running.new_repository(encryption="repokey")
    admin.wait_for_end(admin.start_backup(known))
    copy = running.new_path("copy")
    shutil.copytree(known["path"], copy)
    body = {"name": running.new_name("copy"), "path": str(copy), "passphrase": PASSPHRASE, "index_mode": "off"}
    assert admin.post("/api/repositories/import", json=body).status_code == 201

    failed = admin.wait_for_end(admin.start_backup(known))
    assert (failed["status"], failed["error_key"]) == ("failed", "engine.repository_relocated")

    confirm = f"/api/repositories/{known['id']}/confirm-relocation"
    operator = running.client_with_right(known, "operator")
    assert error_of(operator.post(confirm)) == (403, "access.forbidden")
    answer = admin.post(confirm)
    assert answer.status_code == 200, answer.text
    assert answer.json()["repository_id"] == known["id"]
    assert admin.wait_for_end(admin.start_backup(known))["status"] == "completed"


def test_confirming_a_hidden_or_unknown_repository_returns_404(running: Running) -> None:
    path = f"/api/repositories/{running.known.repository['id']}/confirm-relocation"

    assert error_of(running.stranger.post(path)) == (404, "repository.not_found")
    assert error_of(running.admin.post("/api/repositories/999999/confirm-relocation")) == (404, "repository.not_found")
