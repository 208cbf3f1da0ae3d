"""Wipes over HTTP: previewed, confirmed, completed, and every refusal."""

from typing import Any

import pytest

from tests.contract.fields import error_of, is_timestamp
from tests.contract.maintenance.conftest import made
from tests.contract.maintenance.jobs import Made
from tests.support.running import Running

FIELDS = {"id", "repository_id", "status", "phase", "archive_count", "archive_fingerprint", "archives", "blocked"}


def preview(made: Made, **body: Any) -> dict[str, Any]:
    answer = made.admin.post(f"{made.url}/wipe-preview", json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def confirmation(seen: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "preview_id": seen["id"],
        "preview_fingerprint": seen["archive_fingerprint"],
        "confirmation_phrase": f"WIPE {seen['repository_name']}",
        "understood": True,
        **more,
    }


def job_of(made: Made, job_id: int) -> dict[str, Any]:
    answer = made.admin.get(f"{made.url}/wipe-jobs/{job_id}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_a_preview_lists_the_archives_and_removes_nothing(unchanged: Made) -> None:
    operations = unchanged.operations()

    seen = preview(unchanged, run_compact=False)

    assert set(seen) >= FIELDS | {"blocking_reason"}
    assert seen["id"] > 1_000_000_000
    assert (seen["status"], seen["phase"], seen["archive_count"]) == ("previewed", "preview", 3)
    assert {archive["name"] for archive in seen["archives"]} == {"first", "second", "third"}
    assert seen["archive_fingerprint"].startswith("sha256:")
    assert (seen["blocked"], seen["blocking_reason"], seen["run_compact"]) == (False, None, False)
    assert job_of(unchanged, seen["id"]) == seen
    assert preview(unchanged)["archive_fingerprint"] == seen["archive_fingerprint"]
    assert unchanged.operations() == operations


def test_a_confirmed_wipe_removes_every_archive_and_keeps_the_repository(archived: Made) -> None:
    seen = preview(archived)
    key = {"Idempotency-Key": archived.running.new_name("key")}

    answer = archived.admin.post(f"{archived.url}/wipe", json=confirmation(seen), headers=key)

    assert answer.status_code == 200, answer.text
    started = answer.json()
    assert (started["status"], started["phase"]) == ("pending", "queued")
    assert started["id"] < 1_000_000_000
    archived.admin.wait_for_end(started["id"])
    job = job_of(archived, started["id"])
    assert (job["status"], job["phase"]) == ("completed", "completed")
    assert (job["deleted_count"], job["remaining_count"]) == (3, 0)
    assert set(job["deleted"]) == {"first", "second", "third"}
    assert job["freed_bytes"] is not None
    assert archived.names() == set()
    assert is_timestamp(archived.read()["last_compact"])
    detail = archived.admin.operation(started["id"])
    assert (detail["kind"], detail["detail"]["phase"], detail["detail"]["deleted_count"]) == ("wipe", "completed", 3)

    again = archived.admin.post(f"{archived.url}/wipe", json=confirmation(seen), headers=key)
    assert again.json() == started, "the first answer, although the archives are gone by now"
    used = archived.admin.post(f"{archived.url}/wipe", json=confirmation(seen))
    assert error_of(used) == (409, "wipe.preview_used")
    assert (job_of(archived, seen["id"])["status"], job_of(archived, seen["id"])["operation_id"]) == (
        "started",
        started["id"],
    )
    ended = archived.admin.post(f"{archived.url}/wipe-jobs/{started['id']}/cancel")
    assert error_of(ended) == (409, "operations.already_finished")


def test_a_wipe_without_compaction_ends_in_the_phase_compact_skipped(archived: Made) -> None:
    seen = preview(archived, run_compact=True)

    started = archived.admin.post(f"{archived.url}/wipe", json=confirmation(seen, run_compact=False)).json()

    archived.admin.wait_for_end(started["id"])
    job = job_of(archived, started["id"])
    assert (job["status"], job["phase"], job["deleted_count"]) == ("completed", "compact_skipped", 3)
    assert archived.read()["last_compact"] is None


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"understood": False}, (422, "wipe.confirmation_mismatch")),
        ({"confirmation_phrase": "WIPE"}, (422, "wipe.confirmation_mismatch")),
        ({"confirmation_phrase": ""}, (422, "wipe.confirmation_mismatch")),
        ({"preview_fingerprint": "sha256:0"}, (409, "wipe.preview_stale")),
        ({"preview_id": 1_999_999_999}, (404, "wipe.preview_not_found")),
        ({"preview_id": 1}, (404, "wipe.preview_not_found")),
    ],
)
def test_a_wipe_that_is_not_confirmed_exactly_is_refused(
    change: dict[str, Any], expected: tuple[int, str], unchanged: Made
) -> None:
    seen = preview(unchanged)
    before = unchanged.traces()

    answer = unchanged.admin.post(f"{unchanged.url}/wipe", json=confirmation(seen, **change))

    assert error_of(answer) == expected
    assert unchanged.traces() == before
    assert job_of(unchanged, seen["id"])["status"] == "previewed"
    assert unchanged.names() == {"first", "second", "third"}


def test_a_preview_of_another_repository_is_not_found(unchanged: Made) -> None:
    seen = preview(unchanged)
    other = unchanged.running.new_repository(index_mode="off")
    place = f"/api/repositories/{other['id']}"

    refused = unchanged.admin.post(
        f"{place}/wipe", json=confirmation(seen, confirmation_phrase=f"WIPE {other['name']}")
    )

    assert error_of(refused) == (404, "wipe.preview_not_found")
    assert error_of(unchanged.admin.get(f"{place}/wipe-jobs/{seen['id']}")) == (404, "wipe.preview_not_found")
    assert error_of(unchanged.admin.post(f"{place}/wipe-jobs/{seen['id']}/cancel")) == (404, "wipe.preview_not_found")


def test_an_archive_created_after_the_preview_makes_it_stale(archived: Made) -> None:
    seen = preview(archived)
    archived.engine.run("create", f"{archived.repository['path']}::fourth", archived.repository["source_paths"][0])
    before = archived.traces()

    answer = archived.admin.post(f"{archived.url}/wipe", json=confirmation(seen))

    assert error_of(answer) == (409, "wipe.preview_stale")
    assert archived.traces() == before
    assert archived.names() == {"first", "second", "third", "fourth"}


def test_a_cancelled_preview_cannot_be_started(unchanged: Made) -> None:
    seen = preview(unchanged)
    place = f"{unchanged.url}/wipe-jobs/{seen['id']}"

    cancelled = unchanged.admin.post(f"{place}/cancel")

    assert (cancelled.status_code, cancelled.json()["status"]) == (200, "cancelled")
    assert (job_of(unchanged, seen["id"])["status"], job_of(unchanged, seen["id"])["phase"]) == (
        "cancelled",
        "cancelled",
    )
    refused = unchanged.admin.post(f"{unchanged.url}/wipe", json=confirmation(seen))
    assert error_of(refused) == (409, "wipe.preview_used")
    assert error_of(unchanged.admin.post(f"{place}/cancel")) == (409, "operations.already_finished")


def test_an_operator_may_view_a_wipe_but_neither_preview_start_nor_cancel_one(unchanged: Made) -> None:
    seen = preview(unchanged)
    operator, place = unchanged.operator, f"{unchanged.url}/wipe-jobs/{seen['id']}"

    assert operator.get(place).status_code == 200
    for path, body in (
        (f"{unchanged.url}/wipe-preview", {}),
        (f"{unchanged.url}/wipe", confirmation(seen)),
        (f"{place}/cancel", None),
    ):
        assert error_of(operator.post(path, json=body)) == (403, "access.forbidden")
    assert job_of(unchanged, seen["id"])["status"] == "previewed"


def test_an_unknown_wipe_is_not_found(unchanged: Made) -> None:
    check = unchanged.start("check")
    unchanged.admin.wait_for_end(check)

    for job_id, key in (
        (999_999, "operations.not_found"),
        (check, "operations.not_found"),
        (1_999_999_999, "wipe.preview_not_found"),
    ):
        assert error_of(unchanged.admin.get(f"{unchanged.url}/wipe-jobs/{job_id}")) == (404, key)
        assert error_of(unchanged.admin.post(f"{unchanged.url}/wipe-jobs/{job_id}/cancel")) == (404, key)


def test_a_wipe_of_a_busy_repository_is_queued_and_then_finds_its_preview_stale(impatient: Running) -> None:
    archived = made(impatient)
    seen = preview(archived)
    with impatient.held_backup(archived.repository) as (backup, _):
        busy = archived.admin.post(f"{archived.url}/wipe-preview", json={})
        assert error_of(busy) == (423, "repository.busy")
        assert busy.json()["detail"]["params"]["operation_id"] == backup
        looked = job_of(archived, seen["id"])
        assert (looked["blocked"], looked["blocking_reason"]) == (True, f"backup {backup} is running")

        started = archived.admin.post(f"{archived.url}/wipe", json=confirmation(seen)).json()

        assert (started["status"], started["phase"], started["queued_behind_id"]) == ("pending", "queued", backup)
        assert started["blocked"] is True
    archived.admin.wait_for_end(started["id"])
    job = job_of(archived, started["id"])
    assert (job["status"], job["phase"], job["error_key"]) == ("failed", "delete_failed", "wipe.preview_stale")
    assert (job["deleted_count"], job["remaining_count"]) == (0, 4)
    assert {"first", "second", "third"} < archived.names()


def test_a_waiting_wipe_is_cancelled_immediately(impatient: Running) -> None:
    archived = made(impatient)
    seen = preview(archived)
    with impatient.held_backup(archived.repository):
        started = archived.admin.post(f"{archived.url}/wipe", json=confirmation(seen)).json()

        cancelled = archived.admin.post(f"{archived.url}/wipe-jobs/{started['id']}/cancel")

        assert (cancelled.status_code, cancelled.json()["status"]) == (200, "cancelled")
        job = job_of(archived, started["id"])
        assert (job["status"], job["phase"], job["deleted_count"]) == ("cancelled", "cancelled", None)
