"""Requests that the maintenance routes refuse, with the documented code and key and without leaving a trace."""

from typing import Any

import pytest

from tests.contract.fields import error_of
from tests.contract.maintenance.jobs import Made
from tests.support.service import Client

NOBODY = 999_999
STARTS: list[tuple[str, str, dict[str, Any] | None]] = [
    ("POST", "/api/repositories/{id}/check", {}),
    ("POST", "/api/repositories/{id}/prune", {"keep_last": 1}),
    ("POST", "/api/repositories/{id}/prune", {"keep_last": 1, "dry_run": True}),
    ("POST", "/api/repositories/{id}/compact", {}),
    ("POST", "/api/repositories/{id}/restore-check", {}),
    ("POST", "/api/repositories/{id}/wipe-preview", {}),
    ("POST", "/api/repositories/{id}/wipe", {"preview_id": 1_000_000_001, "preview_fingerprint": "sha256:0"}),
    ("DELETE", "/api/archives/first?repository={path}", None),
]
READS = [
    *(f"/api/repositories/{{id}}/{word}-jobs" for word in ("check", "prune", "compact", "restore-check", "delete")),
    "/api/repositories/{id}/wipe-jobs/1000000001",
]
JOB_READS = [
    *(f"/api/repositories/{word}-jobs/{NOBODY}" for word in ("check", "prune", "compact", "restore-check")),
    f"/api/archives/delete-jobs/{NOBODY}",
]
each_start = pytest.mark.parametrize(
    ("method", "path", "body"),
    STARTS,
    ids=[f"{path.rsplit('/', 1)[1]}-{number}" for number, (_, path, _) in enumerate(STARTS)],
)


def send(client: Client, method: str, path: str, body: dict[str, Any] | None, made: Made, /, **named: Any) -> Any:
    place = path.format(**{"id": made.repository["id"], "path": made.repository["path"], **named})
    return client.request(method, place, json=body)


@each_start
def test_a_viewer_may_not_start_maintenance(
    method: str, path: str, body: dict[str, Any] | None, unchanged: Made
) -> None:
    before = unchanged.traces()

    answer = send(unchanged.viewer, method, path, body, unchanged)

    assert error_of(answer) == (403, "access.forbidden")
    assert unchanged.traces() == before


@each_start
def test_a_user_without_rights_does_not_find_the_repository(
    method: str, path: str, body: dict[str, Any] | None, unchanged: Made
) -> None:
    answer = send(unchanged.running.stranger, method, path, body, unchanged)

    expected = "repository.not_registered" if method == "DELETE" else "repository.not_found"
    assert error_of(answer) == (404, expected)


@each_start
def test_an_unknown_repository_is_not_found(
    method: str, path: str, body: dict[str, Any] | None, unchanged: Made
) -> None:
    answer = send(unchanged.admin, method, path, body, unchanged, id=NOBODY, path="/nowhere/at/all")

    expected = "repository.not_registered" if method == "DELETE" else "repository.not_found"
    assert error_of(answer) == (404, expected)


@each_start
def test_an_account_token_may_not_start_maintenance(
    method: str, path: str, body: dict[str, Any] | None, unchanged: Made
) -> None:
    with unchanged.running.anonymous() as client:
        client.headers["Authorization"] = f"Bearer {unchanged.account_token}"
        answer = send(client, method, path, body, unchanged)

    assert error_of(answer) == (403, "auth.login_token_required")


@each_start
def test_a_request_without_a_credential_is_refused_with_401(
    method: str, path: str, body: dict[str, Any] | None, unchanged: Made
) -> None:
    with unchanged.running.anonymous() as client:
        answer = send(client, method, path, body, unchanged)

    assert error_of(answer) == (401, "auth.credential_missing")


@pytest.mark.parametrize("word", ["check", "prune", "compact", "restore-check", "wipe-preview", "wipe"])
@pytest.mark.parametrize("body", [{"dryrun": True, "keep_last": 1}, []])
def test_a_malformed_body_is_refused_with_422(word: str, body: Any, unchanged: Made) -> None:
    before = unchanged.traces()

    answer = unchanged.admin.post(f"{unchanged.url}/{word}", json=body)

    assert answer.status_code == 422
    assert isinstance(answer.json()["detail"], list)
    assert unchanged.traces() == before


@pytest.mark.parametrize("path", READS)
def test_jobs_of_a_hidden_or_unknown_repository_are_not_found(path: str, unchanged: Made) -> None:
    place = path.format(id=unchanged.repository["id"])

    assert error_of(unchanged.running.stranger.get(place)) == (404, "repository.not_found")
    assert error_of(unchanged.admin.get(path.format(id=NOBODY))) == (404, "repository.not_found")


@pytest.mark.parametrize("path", JOB_READS)
def test_an_unknown_job_is_not_found(path: str, unchanged: Made) -> None:
    assert error_of(unchanged.admin.get(path)) == (404, "operations.not_found")


@pytest.mark.parametrize("word", ["check", "prune", "compact", "restore-check"])
def test_a_job_is_not_found_on_the_route_of_another_kind(word: str, unchanged: Made) -> None:
    known = unchanged.running.known.job_id

    answer = unchanged.admin.get(f"/api/repositories/{word}-jobs/{known}")

    assert error_of(answer) == (404, "operations.not_found")


@pytest.mark.parametrize("limit", ["0", "501", "many"])
def test_a_list_limit_out_of_bounds_is_refused_with_422(limit: str, unchanged: Made) -> None:
    assert unchanged.admin.get(f"{unchanged.url}/check-jobs", params={"limit": limit}).status_code == 422


def test_maintenance_that_changes_an_observed_repository_is_refused(unchanged: Made) -> None:
    made = Made(unchanged.running, unchanged.running.new_repository(mode="observe", index_mode="off"), unchanged.engine)
    before = made.operations()
    changing = [entry for entry in STARTS if entry[1].rsplit("/", 1)[1] not in ("restore-check", "wipe-preview")]

    answers = [
        send(made.admin, method, path, {"repair": True} if path.endswith("check") else body, made)
        for method, path, body in changing
        if not (body or {}).get("dry_run") and not path.endswith("/wipe")
    ]

    assert [error_of(answer) for answer in answers] == [(409, "repository.observe_only")] * len(answers)
    assert len(answers) == 4
    assert made.operations() == before
