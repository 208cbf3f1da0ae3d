"""GET /api/repositories/{id}/key"""

from holdfast.repositories.models import Repository
from tests.contract.fields import error_of
from tests.support.running import PASSPHRASE, Running
from tests.support.service import Client


def test_the_exported_key_matches_the_repository_and_the_export_is_audited(running: Running, admin: Client) -> None:
    known = running.known.repository
    answer = admin.get(f"/api/repositories/{known['id']}/key")

    assert answer.status_code == 200, answer.text
    assert answer.json()["repository_id"] == known["id"]
    assert answer.json()["key"] == running.outside.run("key", "export", known["path"], passphrase=PASSPHRASE)
    assert answer.json()["key"].startswith("BORG_KEY ")
    assert PASSPHRASE not in answer.text
    entries = admin.get("/api/audit", params={"action": "repository.key_exported"}).json()["entries"]
    assert (entries[0]["actor"], entries[0]["object_id"]) == ("admin", str(known["id"]))
    with running.store() as session:
        exported_at = session.get_one(Repository, known["id"]).key_exported_at
    assert exported_at is not None, "alarms then know that a copy of the key exists"


def test_an_unencrypted_repository_has_no_key(running: Running, admin: Client) -> None:
    repository = running.new_repository()

    assert error_of(admin.get(f"/api/repositories/{repository['id']}/key")) == (409, "repository.no_key")


def test_the_key_of_a_busy_repository_cannot_be_exported_until_it_is_free(running: Running, admin: Client) -> None:
    repository = running.new_repository(encryption="repokey")

    with running.held_backup(repository) as (job_id, _gate):
        answer = admin.get(f"/api/repositories/{repository['id']}/key")
        assert error_of(answer) == (423, "repository.busy")
        assert answer.json()["detail"]["params"]["operation_id"] == job_id
        assert int(answer.headers["Retry-After"]) > 0
    assert admin.get(f"/api/repositories/{repository['id']}/key").status_code == 200


def test_only_an_admin_gets_the_key(running: Running) -> None:
    known = running.known.repository
    operator = running.client_with_right(known, "operator")

    assert error_of(operator.get(f"/api/repositories/{known['id']}/key")) == (403, "access.forbidden")
    assert error_of(running.stranger.get(f"/api/repositories/{known['id']}/key")) == (404, "repository.not_found")
