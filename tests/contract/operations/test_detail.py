"""GET /api/operations/{id}, its logs, and POST /api/operations/{id}/cancel"""

import pytest

from tests.contract.fields import CANCEL, LOG_STREAM, MORE_OPERATION, OPERATION, error_of
from tests.support.running import Running

PLACES = [
    ("GET", "/api/operations/{id}"),
    ("GET", "/api/operations/{id}/logs"),
    ("GET", "/api/operations/{id}/logs/download"),
    ("POST", "/api/operations/{id}/cancel"),
]


def test_an_operation_shows_its_run_and_the_details_of_its_kind(running: Running) -> None:
    detail = running.admin.operation(running.known.job_id)

    assert set(detail) == OPERATION | MORE_OPERATION | {"run", "detail", "progress_details", "actions", "refusals"}
    assert [item["id"] for item in detail["run"]] == [running.known.job_id]
    assert set(detail["run"][0]) == OPERATION | MORE_OPERATION
    assert detail["detail"]["archive"]["name"] == detail["archive_name"]
    assert set(detail["detail"]["stats"]) == {"original_size", "compressed_size", "deduplicated_size", "nfiles"}


def test_all_operations_of_a_run_are_listed_oldest_first(running: Running) -> None:
    _, jobs = running.several

    for job_id in (jobs["cancelled"], jobs["failed"]):
        assert [item["id"] for item in running.admin.operation(job_id)["run"]] == [jobs["cancelled"], jobs["failed"]]
    assert running.admin.operation(jobs["failed"])["retry_of"] == jobs["cancelled"]


def test_a_failed_operation_has_an_error_key_and_a_sentence(running: Running) -> None:
    _, jobs = running.several
    failed = running.admin.operation(jobs["failed"])

    assert failed["error_key"] == "engine.source_missing"
    assert failed["error_message"][0].isupper()
    assert failed["error_message"].endswith(".")
    warned = running.admin.operation(jobs["completed_with_warnings"])
    assert warned["error_key"] is None
    assert [set(warning) for warning in warned["warnings"]] == [{"path", "message"}]


@pytest.mark.parametrize(("method", "path"), PLACES, ids=[path for _, path in PLACES])
def test_a_hidden_operation_is_refused_exactly_like_a_missing_one(running: Running, method: str, path: str) -> None:
    hidden = running.stranger.request(method, path.format(id=running.known.job_id))
    missing = running.stranger.request(method, path.format(id=999_999))

    assert error_of(hidden) == error_of(missing) == (404, "operations.not_found")
    assert hidden.text.replace(str(running.known.job_id), "") == missing.text.replace("999999", "")
    assert error_of(running.admin.request(method, path.format(id=999_999))) == (404, "operations.not_found")
    assert error_of(running.admin.request(method, path.format(id=-5))) == (404, "operations.not_found")
    assert running.admin.request(method, path.format(id="hunter2")).status_code == 422
    assert "hunter2" not in running.admin.request(method, path.format(id="hunter2")).text


def test_logs_have_the_same_shape_as_the_backup_log_stream(running: Running) -> None:
    job_id = running.warned
    stream = running.admin.get(f"/api/backup/logs/{job_id}/stream", params={"offset": 5, "limit": 10}).json()
    logs = running.admin.get(f"/api/operations/{job_id}/logs", params={"offset": 5, "limit": 10}).json()

    assert logs == {**stream, "next_match": None, "searched_to": None}
    assert set(stream) == LOG_STREAM
    assert (len(logs["lines"]), logs["total_lines"], logs["has_more"]) == (10, 15, True)
    assert running.admin.get(f"/api/operations/{job_id}/logs", params={"limit": 5001}).status_code == 422
    downloaded = running.admin.get(f"/api/operations/{job_id}/logs/download")
    assert downloaded.headers["Content-Disposition"] == f'attachment; filename="backup-{job_id}.log"'
    assert downloaded.text.splitlines() == running.admin.log_lines(job_id)


def test_an_account_token_may_read_an_operation_but_not_cancel_it(running: Running) -> None:
    client = running.anonymous()
    client.headers["Authorization"] = f"Bearer {running.token}"
    with running.held_backup(running.scratch) as (job_id, _gate):
        assert client.get(f"/api/operations/{job_id}").status_code == 200
        assert client.get(f"/api/operations/{job_id}/logs").status_code == 200
        refused = client.post(f"/api/operations/{job_id}/cancel")
        assert error_of(refused) == (403, "auth.login_token_required")
        early = client.get(f"/api/operations/{job_id}/logs/download")
        assert error_of(early) == (409, "logs.still_running")
        assert running.admin.operation(job_id)["cancel_requested"] is False


def test_an_operator_may_cancel_a_waiting_operation_and_a_viewer_may_not(running: Running) -> None:
    repository = running.scratch
    viewer, operator = (running.client_with_right(repository, role) for role in ("viewer", "operator"))
    with running.held_backup(repository):
        waiting = running.admin.start_backup(repository)
        refused = viewer.post(f"/api/operations/{waiting}/cancel")
        assert error_of(refused) == (403, "access.forbidden")
        assert running.admin.operation(waiting)["status"] == "pending"

        answer = operator.post(f"/api/operations/{waiting}/cancel")

        assert set(answer.json()) == CANCEL
        assert (answer.json()["id"], answer.json()["status"]) == (waiting, "cancelled")
        assert answer.json()["cancel_requested"] is True
    again = operator.post(f"/api/operations/{waiting}/cancel")
    assert error_of(again) == (409, "operations.already_finished")
