"""What all responses have in common."""

from collections.abc import Iterator

import pytest

from tests.contract.fields import error_of, is_timestamp
from tests.support.running import Running
from tests.support.service import Client

MEBIBYTE = 1024 * 1024


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/repositories/", 200),
        ("GET", "/api/repositories/999999", 404),
        ("GET", "/api/nowhere", 404),
        ("PATCH", "/api/repositories/", 405),
        ("POST", "/api/backup/start", 422),
        ("GET", "/health/live", 200),
    ],
)
def test_every_response_has_its_own_request_id(admin: Client, method: str, path: str, status: int) -> None:
    answers = [admin.request(method, path) for _ in range(2)]

    assert [answer.status_code for answer in answers] == [status, status]
    assert len({answer.headers["X-Request-Id"] for answer in answers}) == 2


def test_a_refusal_without_a_credential_names_the_scheme(running: Running) -> None:
    answer = running.anonymous().get("/api/repositories/")

    assert error_of(answer) == (401, "auth.credential_missing")
    assert answer.headers["WWW-Authenticate"] == "Bearer"


def test_an_unknown_path_and_a_wrong_method_have_the_shape_of_every_error(admin: Client) -> None:
    assert error_of(admin.get("/api/nowhere")) == (404, "api.not_found")
    assert error_of(admin.delete("/api/repositories/")) == (405, "api.method_not_allowed")


def test_a_body_with_a_content_length_over_the_limit_is_refused(admin: Client) -> None:
    answer = admin.post("/api/backup/start", json={"repository": "x" * MEBIBYTE})

    assert error_of(answer) == (413, "api.body_too_large")


def test_a_streamed_body_over_the_limit_is_refused(admin: Client) -> None:
    def pieces() -> Iterator[bytes]:
        yield b'{"repository": "'
        for _ in range(20):
            yield b"x" * 65536
        yield b'"}'

    answer = admin.post("/api/backup/start", content=pieces(), headers={"Content-Type": "application/json"})

    assert error_of(answer) == (413, "api.body_too_large")


def test_the_largest_allowed_body_is_accepted(admin: Client) -> None:
    answer = admin.post("/api/backup/start", json={"repository": "x" * (MEBIBYTE - 100)})

    assert answer.status_code == 422, "too long for a path, but not for a body"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/api/backup/start", {"repository": ["hunter2secret"]}),
        ("POST", "/api/repositories/", {"name": "n", "path": "/p", "passphrase": {"hunter2secret": "hunter2secret"}}),
        ("POST", "/api/repositories/", {"name": "n", "path": "/p", "encryption": "hunter2secret"}),
        ("POST", "/api/repositories/import", {"name": ["hunter2secret"], "path": "/p"}),
        ("PUT", "/api/operations/limits", {"max_running_total": "hunter2secret"}),
        ("PUT", "/api/repositories/1", {"index_mode": "hunter2secret"}),
        ("POST", "/api/users", {"username": "u", "password": ["hunter2secret"], "role": "viewer"}),
    ],
)
def test_a_validation_error_lists_the_fields_and_never_the_input(
    admin: Client, method: str, path: str, body: dict[str, object]
) -> None:
    answer = admin.request(method, path, json=body)

    assert answer.status_code == 422
    assert "hunter2secret" not in answer.text
    assert all({"loc", "msg", "type"} == set(item) for item in answer.json()["detail"])


def test_an_error_about_malformed_json_does_not_echo_the_body(admin: Client) -> None:
    headers = {"Content-Type": "application/json"}
    answer = admin.post("/api/backup/start", content=b'{"repository": hunter2secret', headers=headers)

    assert answer.status_code == 422
    assert "hunter2secret" not in answer.text


def test_times_include_their_offset(running: Running, admin: Client) -> None:
    known = running.known
    repository = admin.get(f"/api/repositories/{known.repository['id']}").json()
    status = admin.get(f"/api/backup/status/{known.job_id}").json()
    operation = admin.operation(known.job_id)

    assert all(is_timestamp(repository[name]) for name in ("created_at", "updated_at", "last_backup"))
    assert all(is_timestamp(status[name]) for name in ("started_at", "completed_at"))
    assert all(is_timestamp(operation[name]) for name in ("created_at", "started_at", "completed_at"))
    assert operation["created_at"] <= operation["started_at"] <= operation["completed_at"]
