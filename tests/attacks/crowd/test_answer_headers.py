"""Responses without these headers can be framed, sniffed and cached by browsers and proxies."""

from collections.abc import Iterator

import pytest

from holdfast.api.dependencies import SUPERVISOR
from holdfast.api.headers import protected
from tests.attacks.crowd.agent import enrolled
from tests.support.in_process import InProcess, started


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    with started(tmp_path_factory.mktemp("headers") / "data") as running:
        yield running


def expect_protected(headers: object) -> None:
    told = dict(headers)  # type: ignore[call-overload]
    assert told["x-content-type-options"] == "nosniff"
    assert told["referrer-policy"] == "no-referrer"
    assert told["x-frame-options"] == "DENY"
    assert told["cache-control"] == "no-store"
    assert told["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
    assert len(told["x-request-id"]) == 32


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/health/live", 200),
        ("GET", "/health/ready", 200),
        ("GET", "/api/openapi.json", 200),
        ("GET", "/api/repositories/", 401),
        ("GET", "/api/nowhere", 404),
        ("PATCH", "/api/repositories/", 405),
        ("POST", "/api/auth/login", 422),
        ("GET", "/api/agents/jobs/poll", 401),
    ],
)
def test_every_response_has_the_security_headers(running: InProcess, method: str, path: str, status: int) -> None:
    answer = running.client.request(method, path)

    assert answer.status_code == status
    expect_protected(answer.headers)


def test_a_response_to_an_unexpected_error_has_the_security_headers(
    running: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running.service.parts[SUPERVISOR], "failing", lambda: 1 / 0)

    answer = running.client.get("/health/ready")

    assert answer.status_code == 500
    expect_protected(answer.headers)


def test_poll_responses_to_agents_have_the_security_headers(running: InProcess) -> None:
    agent = enrolled(running)

    answer = running.client.get("/api/agents/jobs/poll", headers=agent.headers)

    assert answer.status_code == 200
    expect_protected(answer.headers)


def test_a_route_may_override_only_the_content_policy_and_caching() -> None:
    own = [
        (b"content-security-policy", b"default-src 'self'"),
        (b"cache-control", b"max-age=60"),
        (b"x-frame-options", b"SAMEORIGIN"),
    ]

    headers = dict(protected(own, "0" * 32))

    assert headers[b"content-security-policy"] == b"default-src 'self'"
    assert headers[b"cache-control"] == b"max-age=60"
    assert headers[b"x-frame-options"] == b"DENY"
