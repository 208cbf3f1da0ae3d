"""Protected archives: no prune, deletion or wipe by the service removes them."""

from typing import Any

import pytest

from tests.contract.fields import error_of, is_timestamp
from tests.contract.maintenance.conftest import made
from tests.contract.maintenance.jobs import Made
from tests.support.running import Running


@pytest.fixture
def known(running: Running) -> Made:
    """A repository whose three archives are in the index."""
    archived = made(running)
    answer = archived.admin.post(f"{archived.url}/resync")
    assert answer.status_code == 200, answer.text
    for number in answer.json()["operations"]:
        archived.admin.wait_for_end(number)
    return archived


def listed(archived: Made, **query: Any) -> dict[str, dict[str, Any]]:
    answer = archived.admin.get(f"{archived.url}/archives", params=query)
    assert answer.status_code == 200, answer.text
    return {one["name"]: one for one in answer.json()["archives"]}


def protect(archived: Made, name: str, *, protected: bool = True) -> dict[str, Any]:
    place = f"{archived.url}/archives/{listed(archived)[name]['id']}"
    answer = archived.operator.put(place, json={"protected": protected})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_a_protected_archive_survives_a_prune_and_is_listed_as_kept_beforehand(known: Made) -> None:
    assert is_timestamp(protect(known, "first")["protected_at"])

    plan = known.admin.post(f"{known.url}/prune", json={"keep_last": 1, "dry_run": True}).json()["prune_result"]
    simulated = known.admin.post(f"{known.url}/retention/simulate", json={"policy": {"keep_last": 1}}).json()
    job = known.run("prune", keep_last=1)

    assert {one["archive"]: one["rule"] for one in plan["keep"]} == {"third": "secondly", "first": "protected"}
    assert [one["archive"] for one in plan["prune"]] == ["second"]
    rules = {one["name"]: one["rule"] for one in simulated["simulated"]["archives"]}
    assert rules == {"third": "secondly", "second": None, "first": "protected"}
    assert min(one["restore_points"] for one in simulated["simulated"]["counts"]) == 2
    assert job["status"] == "completed", job
    assert [one["archive"] for one in job["result"]["prune"]] == ["second"]
    assert (job["result"]["kept_count"], job["result"]["pruned_count"]) == (2, 1)
    assert known.names() == {"first", "third"}

    again = known.run("prune", keep_last=1)
    assert (again["status"], again["result"]["pruned_count"]) == ("completed", 0)
    protect(known, "first", protected=False)
    assert known.run("prune", keep_last=1)["result"]["pruned_count"] == 1
    assert known.names() == {"third"}


def test_a_protected_archive_is_neither_deleted_nor_wiped(known: Made) -> None:
    kept = protect(known, "second")
    seen = known.admin.post(f"{known.url}/wipe-preview", json={}).json()
    confirmed = {
        "preview_id": seen["id"],
        "preview_fingerprint": seen["archive_fingerprint"],
        "confirmation_phrase": seen["confirmation_phrase"],
        "understood": True,
    }

    by_id = known.admin.delete(f"/api/archives/{kept['id']}")
    by_name = known.admin.delete("/api/archives/second", params={"repository": known.repository["path"]})
    wiped = known.admin.post(f"{known.url}/wipe", json=confirmed)
    lost = known.admin.post(f"{known.url}/losses", json={"archive_ids": [kept["id"]]}).json()

    assert error_of(by_id) == error_of(by_name) == (409, "archives.protected")
    assert (seen["protected_count"], error_of(wiped)) == (1, (409, "wipe.protected"))
    assert (lost["archives"], lost["archives_left"]) == (0, 3)
    detail = known.operator.get(f"{known.url}/archives/{kept['id']}").json()
    assert detail["refusals"]["delete_archive"] == "archives.protected"
    assert "protect" in detail["actions"]
    assert known.names() == {"first", "second", "third"}


def test_an_archive_protected_while_its_deletion_waits_is_kept(known: Made) -> None:
    number = listed(known)["first"]["id"]
    with known.running.held_backup(known.repository) as (_, gate):
        deletion = known.admin.delete(f"/api/archives/{number}").json()["job_id"]
        assert is_timestamp(protect(known, "first")["protected_at"])
        gate.open()
        ended = known.admin.wait_for_end(deletion)

    assert (ended["status"], ended["skip_reason"]) == ("skipped", "archive_protected")
    assert "first" in known.names()
    assert error_of(known.admin.post(f"/api/operations/{deletion}/retry")) == (409, "archives.protected")


def test_only_operators_change_the_protection_and_each_change_is_audited(known: Made) -> None:
    number = listed(known)["first"]["id"]
    place = f"{known.url}/archives/{number}"
    token = known.running.anonymous()
    token.headers["X-Backup-Authorization"] = f"Bearer {known.account_token}"

    assert error_of(known.viewer.put(place, json={"protected": True})) == (403, "access.forbidden")
    assert error_of(token.put(place, json={"protected": True})) == (403, "auth.login_token_required")
    for body in ({}, {"protected": "yes"}, {"protected": True, "rule": "daily"}, {"protected": None}):
        assert known.operator.put(place, json=body).status_code == 422
    other = f"{known.url}/archives/999999"
    assert error_of(known.operator.put(other, json={"protected": True})) == (404, "archives.not_found")
    assert listed(known)["first"]["protected_at"] is None

    protect(known, "first")
    protect(known, "first")
    protect(known, "first", protected=False)
    entries = known.admin.get("/api/audit", params={"object_type": "archive", "object_id": number})
    words = [one["action"] for one in entries.json()["entries"]]
    assert words == ["archive.unprotected", "archive.protected"]
