"""Prunes over HTTP: dry runs, refusals and real prunes."""

from typing import Any

import pytest

from tests.contract.fields import JOB_START, error_of, is_timestamp
from tests.contract.maintenance.conftest import made
from tests.contract.maintenance.jobs import STATUS, Made
from tests.support.running import Running, Services

RESULT = {"keep", "prune", "kept_count", "pruned_count", "stdout", "stderr"}


def told(archived: Made, **body: Any) -> dict[str, Any]:
    answer = archived.admin.post(f"{archived.url}/prune", json={**body, "dry_run": True})
    assert answer.status_code == 200, answer.text
    assert answer.json()["dry_run"] is True
    assert "job_id" not in answer.json()
    result: dict[str, Any] = answer.json()["prune_result"]
    return result


def test_a_dry_run_lists_what_would_be_kept_by_which_rule_and_what_would_be_removed(unchanged: Made) -> None:
    before = unchanged.traces()

    result = told(unchanged, keep_last=1, keep_daily=2)

    assert set(result) >= RESULT
    assert [(kept["archive"], kept["rule"]) for kept in result["keep"]] == [
        ("third", "secondly"),
        ("second", "daily"),
        ("first", "daily"),
    ]
    assert all(is_timestamp(kept["time"]) for kept in result["keep"])
    assert result["prune"] == []
    assert (result["kept_count"], result["pruned_count"]) == (3, 0)
    assert "Keeping archive" in result["stderr"]
    assert result["stdout"] == ""
    assert unchanged.traces() == before, "a dry run leaves nothing behind, not even an operation"


def test_a_prune_removes_exactly_what_its_dry_run_listed(archived: Made) -> None:
    plan = told(archived, keep_last=1)

    job = archived.run("prune", keep_last=1)

    assert set(job) >= STATUS
    assert job["status"] == "completed"
    assert [gone["archive"] for gone in job["result"]["prune"]] == [gone["archive"] for gone in plan["prune"]]
    assert {gone["archive"] for gone in plan["prune"]} == {"first", "second"}
    assert (job["result"]["kept_count"], job["result"]["pruned_count"]) == (1, 2)
    assert job["result"]["policy"] == {"keep_last": 1}
    assert archived.names() == {"third"}
    assert is_timestamp(archived.read()["last_prune"])


def test_rules_missing_from_the_body_come_from_the_repository(running: Running) -> None:
    archived = made(running, retention={"keep_last": 1, "keep_daily": 5})

    assert told(archived)["pruned_count"] == 0
    assert told(archived, keep_daily=1)["pruned_count"] == 1
    job = archived.run("prune", keep_daily=0)

    assert job["result"]["policy"] == {"keep_last": 1}
    assert archived.names() == {"third"}


@pytest.mark.parametrize("body", [{}, {"keep_daily": 0}, {"keep_last": 0, "keep_within": None}])
@pytest.mark.parametrize("dry_run", [True, False])
def test_an_empty_policy_is_refused(body: dict[str, Any], dry_run: bool, unchanged: Made) -> None:
    before = unchanged.traces()

    answer = unchanged.admin.post(f"{unchanged.url}/prune", json={**body, "dry_run": dry_run})

    assert error_of(answer) == (422, "prune.empty_policy")
    assert unchanged.traces() == before


def test_a_prune_without_a_body_is_refused_if_the_repository_has_no_policy(unchanged: Made) -> None:
    assert error_of(unchanged.admin.post(f"{unchanged.url}/prune")) == (422, "prune.empty_policy")


def test_a_policy_that_would_remove_every_archive_removes_none(archived: Made) -> None:
    plan = told(archived, keep_within="1d")
    assert (plan["kept_count"], plan["pruned_count"]) == (0, 3)
    assert plan["refusal"]["key"] == "prune.would_remove_everything"

    job = archived.run("prune", keep_within="1d")

    assert (job["status"], job["error_key"]) == ("failed", "prune.would_remove_everything")
    assert job["result"]["pruned_count"] == 0
    assert archived.names() == {"first", "second", "third"}
    assert archived.read()["last_prune"] is None


@pytest.mark.parametrize("body", [{"keep_daily": -1}, {"keep_daily": "all"}, {"keep_within": "soon"}, {"dry_run": 1}])
def test_values_of_the_wrong_type_or_out_of_range_are_refused_with_422(body: dict[str, Any], unchanged: Made) -> None:
    assert unchanged.admin.post(f"{unchanged.url}/prune", json={"keep_last": 1, **body}).status_code == 422


def test_a_time_span_that_the_engine_does_not_support_is_refused(unchanged: Made) -> None:
    answer = unchanged.admin.post(f"{unchanged.url}/prune", json={"keep_within": "5M"})

    assert error_of(answer) == (422, "engine.invalid_request")


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_rule_that_the_engine_does_not_support_is_refused(dry_run: bool, services: Services) -> None:
    archived = made(services.get(engine="1.2"))
    before = archived.traces()

    answer = archived.admin.post(f"{archived.url}/prune", json={"keep_quarterly": 1, "dry_run": dry_run})

    assert error_of(answer) == (422, "engine.unsupported")
    assert archived.traces() == before


def test_a_quarterly_rule_works_if_the_engine_supports_it(unchanged: Made) -> None:
    plan = told(unchanged, keep_quarterly=1)

    assert [kept["rule"].partition("[")[0] for kept in plan["keep"]] == ["quarterly_3monthly"]


def test_a_dry_run_on_a_busy_repository_is_refused_and_names_the_holder(impatient: Running) -> None:
    repository = impatient.new_repository()
    with impatient.held_backup(repository) as (backup, _):
        place = f"/api/repositories/{repository['id']}/prune"
        answer = impatient.admin.post(place, json={"keep_last": 1, "dry_run": True})

        assert error_of(answer) == (423, "repository.busy")
        assert answer.json()["detail"]["params"]["operation_id"] == backup
        assert int(answer.headers["Retry-After"]) > 0
        queued = impatient.admin.post(place, json={"keep_last": 1})
        assert (queued.status_code, queued.json()["status"]) == (200, "pending")
        assert set(queued.json()) == JOB_START
    impatient.admin.wait_for_end(queued.json()["job_id"])


def test_a_prune_queues_an_index_update_and_pruned_archives_leave_the_index(running: Running) -> None:
    repository = running.new_repository()
    admin = running.admin
    place = f"/api/repositories/{repository['id']}"
    admin.put(place, json={"index_mode": "archives"})
    for _ in range(2):
        assert admin.wait_for_end(admin.start_backup(repository))["status"] == "completed"
    job_id = admin.post(f"{place}/prune", json={"keep_last": 1}).json()["job_id"]

    ended = admin.wait_for_end(job_id)

    assert ended["status"] == "completed"
    assert {followup["kind"] for followup in ended["followups"]} >= {"archives"}
    removed = {gone["id"] for gone in ended["result"]["prune"]}
    archives = admin.get(f"{place}/archives").json()["archives"]
    assert len(removed) == 1
    assert removed.isdisjoint({archive["engine_id"] for archive in archives})
    for followup in ended["followups"]:
        admin.wait_for_end(followup["id"])
