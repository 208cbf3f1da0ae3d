"""Scripts of a schedule that run once for all its repositories."""

from typing import Any

import pytest

from tests.contract.schedules.scheduled import URL as SCHEDULES
from tests.contract.schedules.scheduled import Scheduled, refused
from tests.contract.scripts.written import Written
from tests.support.running import Running, Services
from tests.support.service import wait_until

BACKUP = {"kind": "backup"}
PRINT = 'echo "$HOLDFAST_EVENT [$HOLDFAST_REPOSITORY_NAME] [$HOLDFAST_RESULT]"\n'


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def running(request: pytest.FixtureRequest, services: Services) -> Running:
    return services.get(request.param)


@pytest.fixture(scope="module")
def repositories(running: Running) -> list[dict[str, Any]]:
    return [running.new_repository() for _ in range(2)]


def step(script: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"kind": "script", "script_id": script["id"], "scope": "once", **more}


def ran(
    running: Running, repositories: list[dict[str, Any]], *steps: dict[str, Any]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Run a schedule of both repositories; return it and the settled rows of the run."""
    scheduled = Scheduled(running)
    schedule = scheduled.new(*repositories, steps=list(steps))
    started = scheduled.run(schedule)
    return schedule, [scheduled.settled(row["id"]) for row in started["runs"]]


def scripts_of(running: Running, run_id: str, number: int) -> list[dict[str, Any]]:
    """Wait until a run has this many script operations and all have ended; return them oldest first."""

    def found() -> list[dict[str, Any]] | None:
        answer = running.admin.get("/api/operations/", params={"run_id": run_id, "limit": 100})
        assert answer.status_code == 200, answer.text
        scripts = [one for one in reversed(answer.json()["items"]) if one["kind"] == "script_execution"]
        over = all(one["status"] not in ("pending", "running") for one in scripts)
        return scripts if over and len(scripts) >= number else None

    return wait_until(found, what="the scripts have run")


def test_scripts_run_once_before_the_first_backup_and_after_the_last(
    running: Running, repositories: list[dict[str, Any]]
) -> None:
    script = Written(running).new(PRINT)
    schedule, rows = ran(running, repositories, step(script), BACKUP, step(script, when="after"))

    assert [(row["outcome"], row["result"]) for row in rows] == [("ran", "completed")] * 2
    assert [one["scope"] for one in schedule["steps"] if one["kind"] == "script"] == ["once", "once"]
    before, after = scripts_of(running, rows[0]["run_id"], 2)
    assert {row["steps"][0]["operation_id"] for row in rows} == {before["id"]}
    assert running.admin.log_lines(before["id"])[-1] == "before [] []"
    assert running.admin.log_lines(after["id"])[-1] == "after [] [completed]"
    backups = [row["steps"][1]["operation_id"] for row in rows]
    assert before["id"] < min(backups) < max(backups) < after["id"]


def test_a_script_that_declines_skips_the_runs_of_all_repositories(
    running: Running, repositories: list[dict[str, Any]]
) -> None:
    written = Written(running)
    only_failures = step(written.new(PRINT), when="after", run_on="failure")
    _, rows = ran(
        running,
        repositories,
        step(written.new("exit 75\n")),
        BACKUP,
        only_failures,
        step(written.new(PRINT), when="after"),
    )

    assert [(row["outcome"], row["reason"]) for row in rows] == [("skipped", "script_declined")] * 2
    found = scripts_of(running, rows[0]["run_id"], 3)
    assert [one["status"] for one in found] == ["skipped", "completed", "completed"]
    assert running.admin.log_lines(found[2]["id"])[-1] == "after [] [skipped]"


def test_a_failing_script_fails_the_runs_of_all_repositories(
    running: Running, repositories: list[dict[str, Any]]
) -> None:
    written = Written(running)
    unwanted = step(written.new(PRINT), when="after", run_on="success")
    _, rows = ran(running, repositories, step(written.new("exit 1\n")), BACKUP, unwanted)

    assert [(row["result"], row["error_key"]) for row in rows] == [("failed", "scripts.failed")] * 2
    assert [row["steps"][1]["status"] for row in rows] == ["skipped"] * 2
    found = scripts_of(running, rows[0]["run_id"], 2)
    assert [(one["status"], one["skip_reason"]) for one in found] == [
        ("failed", None),
        ("skipped", "result_not_wanted"),
    ]


def test_an_operator_of_one_repository_may_neither_see_nor_cancel_the_shared_script(
    running: Running, repositories: list[dict[str, Any]]
) -> None:
    _, rows = ran(running, repositories, step(Written(running).new(PRINT)), BACKUP)
    operator = running.client_with_right(repositories[0], "operator")
    mine = next(row for row in rows if row["repository_id"] == repositories[0]["id"])
    script = mine["steps"][0]["operation_id"]

    read = operator.get(f"{SCHEDULES}/runs/{mine['id']}")
    assert read.status_code == 200
    assert [one["kind"] for one in read.json()["operations"]] == ["backup"]
    assert operator.get(f"/api/operations/{script}").status_code in (403, 404)
    assert operator.post(f"/api/operations/{script}/cancel").status_code in (403, 404)
    whole = running.admin.get(f"{SCHEDULES}/runs/{mine['id']}").json()
    assert [one["kind"] for one in whole["operations"]] == ["script_execution", "backup"]


def test_a_script_that_runs_on_machines_cannot_run_once_for_all_repositories(
    running: Running, repositories: list[dict[str, Any]]
) -> None:
    elsewhere = Written(running).new("true\n", where="ssh")
    scheduled = Scheduled(running)
    schedule = scheduled.new(*repositories)

    answer = running.admin.put(f"{SCHEDULES}/{schedule['id']}", json={"steps": [step(elsewhere), BACKUP]})
    assert refused(answer, 422)["key"] == "scripts.once_elsewhere"
    assert scheduled.read(schedule)["steps"] == schedule["steps"]
    wrong = {**step(elsewhere), "scope": "twice"}
    assert running.admin.put(f"{SCHEDULES}/{schedule['id']}", json={"steps": [wrong, BACKUP]}).status_code == 422
