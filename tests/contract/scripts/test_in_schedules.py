"""Scripts before and after the backup of a schedule."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.fields import error_of
from tests.contract.schedules.scheduled import URL as SCHEDULES
from tests.contract.schedules.scheduled import Scheduled
from tests.contract.scripts.written import URL, Written
from tests.support.running import Running, Services
from tests.support.service import wait_until

SCRIPT, BACKUP = "script_execution", "backup"


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def shared(request: pytest.FixtureRequest, services: Services) -> tuple[Scheduled, Written, dict[str, Any]]:
    running: Running = services.get(request.param)
    return Scheduled(running), Written(running), running.new_repository()


@pytest.fixture
def scheduled(shared: tuple[Scheduled, Written, dict[str, Any]]) -> Scheduled:
    return shared[0]


@pytest.fixture
def written(shared: tuple[Scheduled, Written, dict[str, Any]]) -> Written:
    return shared[1]


@pytest.fixture
def repository(shared: tuple[Scheduled, Written, dict[str, Any]]) -> Iterator[dict[str, Any]]:
    yield shared[2]
    names = {one["id"] for one in shared[0].client.get(f"{SCHEDULES}/").json()["schedules"]}
    for number in names:
        shared[0].client.delete(f"{SCHEDULES}/{number}")


def step(script: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"kind": "script", "script_id": script["id"], **more}


def ran(scheduled: Scheduled, repository: dict[str, Any], *scripts: dict[str, Any]) -> dict[str, Any]:
    """Run a schedule with these script steps around its backup, and return the settled run."""
    schedule = scheduled.new(repository, steps=[*scripts, {"kind": "backup"}])
    return scheduled.settled(scheduled.run(schedule)["runs"][0]["id"])


def statuses(row: dict[str, Any]) -> list[tuple[str, str]]:
    return [(step["kind"], step["status"]) for step in row["steps"]]


def test_scripts_run_before_and_after_the_backup_and_receive_its_result(
    scheduled: Scheduled, written: Written, repository: dict[str, Any]
) -> None:
    before = written.new('echo "$HOLDFAST_EVENT [$HOLDFAST_RESULT] $HOLDFAST_SCHEDULE_NAME"\n')
    after = written.new('echo "$HOLDFAST_EVENT $HOLDFAST_RESULT $HOLDFAST_ARCHIVE_NAME $HOLDFAST_DUE_AT"\n')

    row = ran(scheduled, repository, step(before), step(after, when="after"))

    assert (row["outcome"], row["result"]) == ("ran", "completed")
    assert statuses(row) == [("script", "completed"), ("backup", "completed"), ("script", "completed")]
    ids = [one["operation_id"] for one in row["steps"]]
    archive = scheduled.client.operation(ids[1])["archive_name"]
    assert scheduled.client.log_lines(ids[0])[-1] == f"before [] {row['schedule_name']}"
    words = scheduled.client.log_lines(ids[2])[-1].split()
    assert words[:3] == ["after", "completed", archive]
    assert words[3].startswith(row["due_at"][:10])
    assert {one["run_id"] for one in row["operations"]} == {row["run_id"]}


@pytest.mark.parametrize(
    ("content", "more", "expected", "result"),
    [
        ("exit 1\n", {}, ["failed", "skipped", "completed"], "failed"),
        ("exit 1\n", {"on_failure": "warn"}, ["failed", "completed", "completed"], "completed_with_warnings"),
    ],
)
def test_a_failing_script_before_the_backup_skips_it_or_warns(
    scheduled: Scheduled,
    written: Written,
    repository: dict[str, Any],
    content: str,
    more: dict[str, Any],
    expected: list[str],
    result: str,
) -> None:
    after = written.new("echo $HOLDFAST_RESULT\n")

    row = ran(scheduled, repository, step(written.new(content), **more), step(after, when="after"))

    assert [one["status"] for one in row["steps"]] == expected
    assert (row["outcome"], row["result"]) == ("ran", result)


def test_a_later_script_that_only_warns_does_not_hide_an_earlier_failure(
    scheduled: Scheduled, written: Written, repository: dict[str, Any]
) -> None:
    bad, fine = written.new("exit 1\n"), written.new("true\n")

    row = ran(scheduled, repository, step(bad), step(fine, on_failure="warn"))

    assert [one["status"] for one in row["steps"]] == ["failed", "skipped", "skipped"]
    assert row["result"] == "failed"


def test_a_failing_script_after_the_backup_makes_the_run_end_with_warnings(
    scheduled: Scheduled, written: Written, repository: dict[str, Any]
) -> None:
    row = ran(scheduled, repository, step(written.new("exit 1\n"), when="after"))

    assert statuses(row) == [("backup", "completed"), ("script", "failed")]
    assert (row["outcome"], row["result"], row["error_key"]) == ("ran", "completed_with_warnings", None)


def test_a_script_that_declines_skips_the_run_but_cleanup_scripts_still_run(
    scheduled: Scheduled, written: Written, repository: dict[str, Any]
) -> None:
    always, on_failure = written.new("true\n"), written.new("true\n")

    row = ran(
        scheduled,
        repository,
        step(written.new("exit 75\n")),
        step(always, when="after"),
        step(on_failure, when="after", run_on="failure"),
    )

    assert (row["outcome"], row["reason"]) == ("skipped", "script_declined")
    assert [one["status"] for one in row["steps"]] == ["skipped", "skipped", "completed", "skipped"]
    assert row["steps"][3]["skipped"] == "result_not_wanted"


def test_a_script_after_the_backup_runs_only_on_its_chosen_results(
    scheduled: Scheduled, written: Written, repository: dict[str, Any]
) -> None:
    fine = written.new("true\n")
    wanted = ("success", "warning", "failure", "always")

    row = ran(scheduled, repository, *(step(fine, when="after", run_on=word) for word in wanted))

    assert [one["status"] for one in row["steps"]] == ["completed", "completed", "skipped", "skipped", "completed"]
    assert row["result"] == "completed"


def test_a_cancelled_run_still_runs_its_cleanup_script(
    scheduled: Scheduled, written: Written, repository: dict[str, Any]
) -> None:
    mark, undone = written.running.new_path("started"), written.running.new_path("undone")
    slow = written.new(f"touch {mark}; exec sleep 1000\n")
    undo = written.new(f"touch {undone}\n")
    schedule = scheduled.new(repository, steps=[step(slow), {"kind": "backup"}, step(undo, when="after")])
    number = scheduled.run(schedule)["runs"][0]["id"]
    wait_until(mark.exists, what="the script before the backup has started")

    assert scheduled.client.post(f"{SCHEDULES}/runs/{number}/cancel").status_code == 200

    row = scheduled.settled(number)
    assert [one["status"] for one in row["steps"]] == ["cancelled", "cancelled", "completed"]
    assert undone.exists()
    assert row["result"] == "cancelled"


def test_a_schedule_runs_the_newest_version_of_a_script(
    scheduled: Scheduled, written: Written, repository: dict[str, Any]
) -> None:
    script = written.new("echo one\n")
    schedule = scheduled.new(repository, steps=[step(script)])
    written.change(script, content="echo two\n")

    row = scheduled.settled(scheduled.run(schedule)["runs"][0]["id"])

    assert scheduled.client.log_lines(row["steps"][0]["operation_id"])[-1] == "two"


def test_a_script_in_use_cannot_be_deleted_or_given_incompatible_parameters(
    scheduled: Scheduled, written: Written, repository: dict[str, Any]
) -> None:
    script = written.new("true\n", parameters=[{"name": "word"}])
    schedule = scheduled.new(repository, steps=[step(script, parameters={"word": "x"}), {"kind": "backup"}])
    place = f"{URL}/{script['id']}"

    refused = written.admin.delete(place)

    assert error_of(refused) == (409, "scripts.in_use")
    uses = [{"id": schedule["id"], "name": schedule["name"]}]
    assert refused.json()["detail"]["params"]["schedules"] == uses == written.admin.get(place).json()["used_by"]
    for parameters in (
        [],
        [{"name": "word"}, {"name": "needed", "required": True}],
        [{"name": "word", "secret": True}],
    ):
        answer = written.admin.put(place, json={"parameters": parameters})
        assert error_of(answer) == (422, "scripts.uses_do_not_fit"), parameters


def test_secrets_of_a_step_are_kept_and_used_but_never_shown(
    scheduled: Scheduled, written: Written, repository: dict[str, Any]
) -> None:
    declared = [{"name": "password", "secret": True, "required": True}, {"name": "word"}]
    script = written.new(
        '[ "$HOLDFAST_PARAM_PASSWORD" = correct-horse ] && echo $HOLDFAST_PARAM_WORD\n', parameters=declared
    )
    missing = scheduled.body(repository, steps=[step(script)])
    assert error_of(scheduled.client.post(f"{SCHEDULES}/", json=missing)) == (422, "scripts.bad_parameter")
    given = {"password": "correct-horse", "word": "battery"}
    schedule = scheduled.new(repository, steps=[step(script, parameters=given)])
    shown = schedule["steps"][0]

    assert (shown["parameters"], shown["has_secrets"]) == ({"word": "battery"}, True)
    assert "correct-horse" not in str(schedule)
    changed = {**shown, "parameters": {"word": "staple"}}
    answer = scheduled.client.put(f"{SCHEDULES}/{schedule['id']}", json={"steps": [changed]})
    assert answer.status_code == 200, answer.text
    row = scheduled.settled(scheduled.run(schedule)["runs"][0]["id"])
    assert row["result"] == "completed"
    assert scheduled.client.log_lines(row["steps"][0]["operation_id"])[-1] == "staple"
    assert "correct-horse" not in str(row)


def test_each_of_several_steps_keeps_its_own_secret(
    scheduled: Scheduled, written: Written, repository: dict[str, Any]
) -> None:
    declared = [{"name": "password", "secret": True, "required": True}, {"name": "word"}]
    script = written.new('[ "$HOLDFAST_PARAM_PASSWORD" = "of-$HOLDFAST_PARAM_WORD" ]\n', parameters=declared)
    steps = [step(script, parameters={"word": word, "password": f"of-{word}"}) for word in ("one", "two")]
    schedule = scheduled.new(repository, steps=steps)
    place = f"{SCHEDULES}/{schedule['id']}"

    answer = scheduled.client.put(place, json={"steps": schedule["steps"][::-1]})
    assert answer.status_code == 200, answer.text
    row = scheduled.settled(scheduled.run(schedule)["runs"][0]["id"])
    assert row["result"] == "completed"

    changed = [{**one, "parameters": {"word": "three"}} for one in schedule["steps"]]
    refused = scheduled.client.put(place, json={"steps": changed})
    assert error_of(refused) == (422, "scripts.secret_needed")
    assert refused.json()["detail"]["params"]["parameter"] == "password"


def test_operators_may_only_use_scripts_that_allow_operators(
    scheduled: Scheduled, written: Written, repository: dict[str, Any]
) -> None:
    running = scheduled.running
    theirs, not_theirs = written.new("true\n", operators_may_use=True), written.new("true\n")
    user = running.new_user("operator")
    users = running.admin.get("/api/users").json()["users"]
    user_id = next(one["id"] for one in users if one["username"] == user["username"])
    other = running.new_repository()
    for each in (repository, other):
        right = f"/api/users/{user_id}/repositories/{each['id']}"
        assert running.admin.put(right, json={"role": "operator"}).status_code == 200
    operator = running.client_of(user)

    fine = operator.post(f"{SCHEDULES}/", json=scheduled.body(repository, steps=[step(theirs), {"kind": "backup"}]))
    assert fine.status_code == 201, fine.text
    body = scheduled.body(repository, steps=[step(not_theirs), {"kind": "backup"}])
    assert error_of(operator.post(f"{SCHEDULES}/", json=body)) == (404, "scripts.not_found")
    of_admin = f"{SCHEDULES}/{scheduled.new(repository, steps=[step(not_theirs), {'kind': 'backup'}])['id']}"
    targets = {"targets": {"repository_ids": [other["id"]]}}
    assert error_of(operator.put(of_admin, json=targets)) == (404, "scripts.not_found")
    assert error_of(operator.post(f"{of_admin}/duplicate", json={})) == (404, "scripts.not_found")
    assert operator.put(of_admin, json={"description": "night"}).status_code == 200
    assert operator.get(of_admin).json()["targets"] == {
        "repository_ids": [repository["id"]],
        "labels": None,
        "all": None,
    }


def test_shorthand_fields_name_scripts_before_and_after_the_backup(
    scheduled: Scheduled, written: Written, repository: dict[str, Any]
) -> None:
    first, second = written.new("true\n"), written.new("true\n")

    schedule = scheduled.new(repository, pre_backup_script_id=first["id"], post_backup_script_id=second["id"])

    assert [(one["kind"], one.get("when"), one.get("script_id")) for one in schedule["steps"]] == [
        ("script", "before", first["id"]),
        ("backup", None, None),
        ("script", "after", second["id"]),
    ]
    refused = scheduled.client.post(f"{SCHEDULES}/", json=scheduled.body(repository, run_repository_scripts=True))
    assert error_of(refused) == (422, "schedules.step_unsupported")


@pytest.mark.parametrize(
    ("more", "key"),
    [
        ({"script_id": 7_654_321}, "scripts.not_found"),
        ({"parameters": {"unknown": "x"}}, "scripts.bad_parameter"),
    ],
)
def test_a_script_step_that_cannot_run_is_refused(
    scheduled: Scheduled, written: Written, repository: dict[str, Any], more: dict[str, Any], key: str
) -> None:
    wanted = {**step(written.new("true\n")), **more}

    answer = scheduled.client.post(f"{SCHEDULES}/", json=scheduled.body(repository, steps=[wanted]))

    assert error_of(answer)[1] == key


def test_a_script_after_requires_a_backup_and_one_before_cannot_depend_on_a_result(
    scheduled: Scheduled, written: Written, repository: dict[str, Any]
) -> None:
    script = written.new("true\n")
    for wanted in (step(script, when="after"), step(script, run_on="failure")):
        answer = scheduled.client.post(f"{SCHEDULES}/", json=scheduled.body(repository, steps=[wanted]))
        assert answer.status_code == 422, answer.text
