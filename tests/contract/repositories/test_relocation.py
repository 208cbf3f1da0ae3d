"""POST /api/repositories/{id}/confirm-relocation"""

import shutil

import pytest

from tests.contract.fields import error_of
from tests.support.running import Running, Services


@pytest.mark.parametrize("engine", ["1.2", "1.4"])
def test_a_repository_that_was_elsewhere_before_waits_for_a_persons_word(services: Services, engine: str) -> None:
    """Somebody swaps two disks: what is at the path now is known to the engine from another place."""
    running = services.get(engine=engine)
    admin = running.admin
    known = running.new_repository(encryption="repokey")
    admin.wait_for_end(admin.start_backup(known))
    swapped = running.new_repository(encryption="repokey")
    shutil.rmtree(swapped["path"])
    shutil.copytree(known["path"], swapped["path"])

    failed = admin.wait_for_end(admin.start_backup(swapped))
    assert (failed["status"], failed["error_key"]) == ("failed", "engine.repository_relocated")

    confirm = f"/api/repositories/{swapped['id']}/confirm-relocation"
    operator = running.client_with_right(swapped, "operator")
    assert error_of(operator.post(confirm)) == (403, "access.forbidden")
    answer = admin.post(confirm)
    assert answer.status_code == 200, answer.text
    assert answer.json()["repository_id"] == swapped["id"]
    assert admin.wait_for_end(admin.start_backup(swapped))["status"] == "completed"


def test_confirming_is_for_those_who_may_see_it(running: Running) -> None:
    path = f"/api/repositories/{running.known.repository['id']}/confirm-relocation"

    assert error_of(running.stranger.post(path)) == (404, "repository.not_found")
    assert error_of(running.admin.post("/api/repositories/999999/confirm-relocation")) == (404, "repository.not_found")
