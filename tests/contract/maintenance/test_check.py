"""Checks over HTTP."""

import pytest

from tests.contract.fields import JOB_START, error_of, is_timestamp
from tests.contract.maintenance.jobs import STATUS, Made


def test_a_check_is_queued_runs_and_is_recorded_on_the_repository(archived: Made) -> None:
    answer = archived.admin.post(f"{archived.url}/check")
    assert answer.status_code == 200
    assert set(answer.json()) == JOB_START
    assert answer.json()["status"] == "pending"

    job = archived.end_of("check", answer.json()["job_id"])

    assert set(job) >= STATUS
    assert (job["status"], job["progress"], job["error_key"]) == ("completed", 100.0, None)
    assert job["repository"] == archived.repository["path"]
    assert job["repository_id"] == archived.repository["id"]
    assert is_timestamp(job["started_at"])
    assert is_timestamp(job["completed_at"])
    assert "no problems found" in job["logs"]
    assert job["result"]["problems"] == []
    assert job["result"]["verdicts"] == ["no problems found", "no problems found"]
    assert job["result"]["complete"] is True
    assert is_timestamp(archived.read()["last_check"])
    listed = archived.admin.get(f"{archived.url}/check-jobs").json()["jobs"]
    assert [entry["id"] for entry in listed] == [job["id"]]
    assert listed[0]["logs"] is None


def test_a_check_of_limited_duration_is_reported_as_incomplete(archived: Made) -> None:
    job = archived.run("check", max_duration=60)

    assert job["status"] == "completed"
    assert job["result"]["complete"] is False
    assert job["params"]["max_duration"] == 60


def test_the_detail_of_the_operation_shows_the_findings_and_jobs_are_listed_newest_first(archived: Made) -> None:
    jobs = [archived.run("check", verify_data=True), archived.run("check")]

    detail = archived.admin.operation(jobs[0]["id"])
    listed = archived.admin.get(f"{archived.url}/check-jobs", params={"limit": 2}).json()["jobs"]

    assert (detail["kind"], detail["category"], detail["type"]) == ("check", "maintenance", "check")
    assert detail["detail"] == {
        "problems": [],
        "problem_count": 0,
        "verdicts": ["no problems found"] * 2,
        "complete": True,
    }
    assert jobs[0]["result"]["verify_data"] is True
    assert [entry["id"] for entry in listed] == [jobs[1]["id"], jobs[0]["id"]]


@pytest.mark.parametrize(
    "body",
    [
        {"max_duration": 60, "verify_data": True},
        {"max_duration": 60, "repair": True},
    ],
)
def test_mutually_exclusive_options_are_refused(body: dict[str, object], unchanged: Made) -> None:
    before = unchanged.traces()

    assert error_of(unchanged.admin.post(f"{unchanged.url}/check", json=body)) == (422, "engine.invalid_request")
    assert unchanged.traces() == before


@pytest.mark.parametrize("body", [{"max_duration": 0}, {"verify_data": "yes"}, {"repair": 1}])
def test_values_of_the_wrong_type_or_out_of_range_are_refused_with_422(
    body: dict[str, object], unchanged: Made
) -> None:
    assert unchanged.admin.post(f"{unchanged.url}/check", json=body).status_code == 422


def test_an_operator_may_not_repair(unchanged: Made) -> None:
    before = unchanged.traces()
    refused = unchanged.operator.post(f"{unchanged.url}/check", json={"repair": True})

    assert error_of(refused) == (403, "access.forbidden")
    assert unchanged.traces() == before


def test_an_operator_may_check_and_an_administrator_may_repair(archived: Made) -> None:
    started = archived.operator.post(f"{archived.url}/check", json={"repair": False})
    assert started.status_code == 200
    assert archived.end_of("check", started.json()["job_id"])["triggered_by"].startswith("operator")

    repaired = archived.run("check", repair=True)

    assert repaired["status"] == "completed"
    assert repaired["result"]["repair"] is True
    assert archived.names() == {"first", "second", "third"}


def test_a_request_repeated_with_its_idempotency_key_starts_one_job(archived: Made) -> None:
    headers = {"Idempotency-Key": archived.running.new_name("key")}

    answers = [archived.admin.post(f"{archived.url}/check", json={}, headers=headers) for _ in range(2)]

    assert answers[0].json() == answers[1].json()
    assert archived.operations() == [answers[0].json()["job_id"]]
    other = archived.admin.post(f"{archived.url}/check", json={"verify_data": True}, headers=headers)
    assert error_of(other) == (409, "idempotency.mismatch")
    archived.admin.wait_for_end(answers[0].json()["job_id"])


def test_a_check_of_a_busy_repository_names_the_holder_and_can_be_cancelled(archived: Made) -> None:
    with archived.running.held_backup(archived.repository) as (backup, _):
        job_id = archived.start("check")
        job = archived.admin.get(f"/api/repositories/check-jobs/{job_id}").json()
        assert (job["status"], job["queued_reason"], job["queued_behind_id"]) == ("pending", "repository_busy", backup)
        assert job["queue_position"] >= 1

        cancelled = archived.admin.post(f"/api/operations/{job_id}/cancel")

        assert cancelled.json()["status"] == "cancelled"
    again = archived.admin.post(f"/api/operations/{job_id}/cancel")
    assert error_of(again) == (409, "operations.already_finished")
