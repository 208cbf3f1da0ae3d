"""Requests that the routes of manual backups refuse without leaving a trace."""

import pytest

from tests.contract.backup.jobs import JOB_ROUTES, NOBODY, ROUTES, traces
from tests.contract.fields import error_of
from tests.support.running import Running
from tests.support.service import Client

each_route = pytest.mark.parametrize(("method", "path"), ROUTES, ids=[path for _, path in ROUTES])
each_job_route = pytest.mark.parametrize(("method", "path"), JOB_ROUTES, ids=[path for _, path in JOB_ROUTES])


def body_of(running: Running, method: str) -> dict[str, str] | None:
    return {"repository": running.known.repository["path"]} if method == "POST" else None


@each_route
def test_an_account_token_is_refused_in_either_header(running: Running, method: str, path: str) -> None:
    before = traces(running)

    for header in ("Authorization", "X-Backup-Authorization"):
        answer = running.anonymous().request(
            method,
            path.format(job=running.known.job_id),
            json=body_of(running, method),
            headers={header: f"Bearer {running.token}"},
        )
        assert error_of(answer) == (403, "auth.login_token_required")
    assert traces(running) == before


@each_route
def test_a_request_without_a_credential_is_refused_with_401(running: Running, method: str, path: str) -> None:
    answer = running.anonymous().request(method, path.format(job=running.known.job_id), json=body_of(running, method))

    assert error_of(answer) == (401, "auth.credential_missing")
    assert answer.headers["WWW-Authenticate"] == "Bearer"


@each_job_route
def test_hidden_and_unknown_jobs_and_jobs_of_another_kind_are_not_found(
    running: Running, method: str, path: str
) -> None:
    check = _check(running)
    before = traces(running)

    def asked(client: Client, job_id: int) -> tuple[int, str]:
        return error_of(client.request(method, path.format(job=job_id)))

    assert asked(running.stranger, running.known.job_id) == (404, "operations.not_found")
    assert asked(running.admin, check) == (404, "operations.not_found")
    for nobody in (NOBODY, 0, -1, 2**63 - 1):
        assert asked(running.admin, nobody) == (404, "operations.not_found")
    for malformed in ("abc", str(2**63), "1.5"):
        assert running.admin.request(method, path.format(job=malformed)).status_code == 422
    assert traces(running) == before


def test_the_preferred_header_decides_when_both_are_sent(running: Running) -> None:
    good = running.admin.headers["X-Backup-Authorization"]
    place = f"/api/backup/status/{running.known.job_id}"

    preferred = running.anonymous().get(place, headers={"X-Backup-Authorization": good, "Authorization": "Bearer no"})
    refused = running.anonymous().get(place, headers={"X-Backup-Authorization": "Bearer no", "Authorization": good})
    compatible = running.anonymous().get(place, headers={"Authorization": good})

    assert (preferred.status_code, compatible.status_code) == (200, 200)
    assert error_of(refused) == (401, "auth.token_invalid")


def test_a_viewer_may_read_but_neither_cancel_nor_retry(running: Running) -> None:
    repository, jobs = running.several
    viewer = running.client_with_right(repository, "viewer")
    before = traces(running)

    assert viewer.get(f"/api/backup/status/{jobs['failed']}").status_code == 200
    assert viewer.get(f"/api/backup/logs/{jobs['completed']}/stream").status_code == 200
    assert viewer.get(f"/api/backup/logs/{jobs['completed']}/download").status_code == 200
    for path in (f"/api/backup/cancel/{jobs['failed']}", f"/api/backup/jobs/{jobs['failed']}/retry"):
        assert error_of(viewer.post(path)) == (403, "access.forbidden")
    assert traces(running) == before


def _check(running: Running) -> int:
    """A finished operation of another kind."""
    known = running.admin.get("/api/operations/", params={"kind": "check", "limit": 1}).json()["items"]
    if known:
        return int(known[0]["id"])
    started = running.admin.post(f"/api/repositories/{running.scratch['id']}/check", json={})
    job_id: int = started.json()["job_id"]
    running.admin.wait_for_end(job_id)
    return job_id
