"""The actions that responses offer a caller are the ones that the routes then allow."""

from typing import Any

from tests.contract.fields import error_of
from tests.support.running import Running
from tests.support.service import Client

JOBS = {"backup", "restore", "check", "restore_check", "prune", "compact", "delete_archive"}
EVERYTHING = JOBS | {"wipe", "protect", "resync", "rebuild", "break_lock", "export_key", "change", "forget"}


def read(client: Client, repository: dict[str, Any]) -> dict[str, Any]:
    answer = client.get(f"/api/repositories/{repository['id']}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_each_role_gets_its_own_actions(running: Running) -> None:
    repository = running.scratch
    viewer, operator = (running.client_with_right(repository, role) for role in ("viewer", "operator"))

    of_viewer, of_operator, of_admin = (read(client, repository) for client in (viewer, operator, running.admin))

    assert [found["my_role"] for found in (of_viewer, of_operator, of_admin)] == ["viewer", "operator", "admin"]
    assert of_viewer["actions"] == []
    assert set(of_viewer["refusals"].values()) == {"access.forbidden"}
    assert set(of_operator["actions"]) == JOBS | {"protect", "resync", "rebuild", "break_lock"}
    assert set(of_admin["actions"]) == EVERYTHING
    assert of_admin["refusals"] == {}
    listed = operator.get("/api/repositories/").json()["repositories"]
    assert [(each["my_role"], each["actions"]) for each in listed] == [("operator", of_operator["actions"])]


def test_a_login_and_a_token_of_the_same_user_get_separate_lists(running: Running) -> None:
    """Lists are cached by what the caller may see."""
    repository = running.scratch
    operator = running.client_with_right(repository, "operator")
    with_token = running.anonymous()
    with_token.headers["X-Backup-Authorization"] = f"Bearer {running.account_token(operator)}"

    by_login, by_token = (
        client.get("/api/repositories/").json()["repositories"][0] for client in (operator, with_token)
    )

    assert "backup" in by_login["actions"]
    assert by_token["actions"] == []
    assert by_token["refusals"]["backup"] == "auth.login_token_required"
    assert by_token["refusals"]["change"] == "auth.scope_too_narrow"


def test_actions_refused_for_an_observed_repository_are_refused_by_their_routes(running: Running) -> None:
    repository = running.new_repository(mode="observe")
    place = f"/api/repositories/{repository['id']}"

    refused = read(running.admin, repository)["refusals"]

    assert refused == dict.fromkeys(("backup", "prune", "compact", "delete_archive", "wipe"), "repository.observe_only")
    answers = {
        "backup": running.admin.post("/api/backup/start", json={"repository": repository["path"]}),
        "prune": running.admin.post(f"{place}/prune", json={"keep_last": 1}),
        "compact": running.admin.post(f"{place}/compact", json={}),
    }
    assert {name: error_of(answer) for name, answer in answers.items()} == dict.fromkeys(
        answers, (409, "repository.observe_only")
    )


def test_an_operation_can_be_cancelled_while_it_runs_and_its_log_downloaded_afterwards(running: Running) -> None:
    repository = running.new_repository()
    viewer = running.client_with_right(repository, "viewer")
    with running.held_backup(repository) as (job_id, _gate):
        held = running.admin.operation(job_id)
        seen = viewer.operation(job_id)
    ended = running.admin.operation(job_id)

    assert (held["actions"], held["refusals"]) == (
        ["cancel"],
        {
            "retry": "operations.still_active",
            "delete": "operations.still_active",
            "download_log": "logs.still_running",
        },
    )
    assert seen["actions"] == []
    assert (seen["refusals"]["cancel"], seen["refusals"]["delete"]) == ("access.forbidden", "access.forbidden")
    assert (ended["actions"], ended["refusals"]) == (
        ["delete", "download_log"],
        {"cancel": "operations.already_finished", "retry": "operations.not_retryable"},
    )


def test_the_response_about_the_current_user_lists_their_capabilities(running: Running) -> None:
    operator = running.client_of(running.new_user("operator"))

    assert "create_repository" in running.admin.get("/api/auth/me").json()["capabilities"]
    assert operator.get("/api/auth/me").json()["capabilities"] == ["create_tokens"]
