"""Who may read `/metrics`, and that a token for it allows nothing else."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.contract.every_route import ENDLESS
from tests.support.in_process import InProcess, started
from tests.support.running import PASSWORD

HEADER = "X-Backup-Authorization"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    with started(tmp_path_factory.mktemp("metrics") / "data", role="api") as service:
        yield service


def user(running: InProcess, name: str, role: str, **more: Any) -> dict[str, str]:
    body = {"username": name, "password": PASSWORD, "role": role, "must_change_password": False, **more}
    assert running.client.post("/api/users", json=body, headers=running.login()).status_code == 201
    return running.login(name, PASSWORD)


def token(running: InProcess, login: dict[str, str], scope: str) -> dict[str, str]:
    answer = running.client.post("/api/settings/tokens", json={"name": scope, "scope": scope}, headers=login)
    assert answer.status_code == 201, answer.text
    return {HEADER: f"Bearer {answer.json()['token']}"}


def test_a_metrics_token_reads_the_metrics_in_text_format(running: InProcess) -> None:
    answer = running.client.get("/metrics", headers=token(running, running.login(), "metrics"))

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    families = {family.name for family in text_string_to_metric_families(answer.text)}
    assert "holdfast_build" in families or "holdfast_build_info" in families


def test_a_metrics_token_works_in_the_authorization_header(running: InProcess) -> None:
    value = token(running, running.login(), "metrics")[HEADER]

    assert running.client.get("/metrics", headers={"Authorization": value}).status_code == 200


def test_a_metrics_token_is_refused_on_every_other_route(running: InProcess) -> None:
    headers = token(running, running.login(), "metrics")
    document = running.client.get("/api/openapi.json").json()
    asked = 0
    for path, item in document["paths"].items():
        for method, operation in item.items():
            if (
                path in ("/metrics", ENDLESS)
                or not operation.get("security")
                or "AgentBearer" in str(operation["security"])
            ):
                continue
            url = path.replace("{job_type}", "backup").replace("{", "").replace("}", "")
            url = "/".join("1" if part.endswith(("_id", "agent")) else part for part in url.split("/"))
            answer = running.client.request(
                method, url, headers=headers, json={} if method not in ("get", "head") else None
            )
            assert answer.status_code == 403, (method, path, answer.text)
            if method != "head":  # which has no body
                assert answer.json()["detail"]["key"] == "auth.scope_too_narrow", (method, path)
            asked += 1
    assert asked > 80


def test_a_metrics_token_may_not_open_an_event_stream(running: InProcess) -> None:
    answer = running.client.get(ENDLESS, headers=token(running, running.login(), "metrics"))

    assert (answer.status_code, answer.json()["detail"]["key"]) == (403, "auth.scope_too_narrow")


def test_only_an_admin_may_create_a_metrics_token(running: InProcess) -> None:
    """Metrics name every repository and agent."""
    operator = user(running, "operator-of-all", "operator", all_repositories_role="operator")
    answer = running.client.post("/api/settings/tokens", json={"name": "m", "scope": "metrics"}, headers=operator)

    assert (answer.status_code, answer.json()["detail"]["key"]) == (403, "access.forbidden")
    assert running.client.get("/metrics", headers=operator).status_code == 403


def test_a_metrics_token_stops_working_when_its_owner_is_no_longer_an_admin(running: InProcess) -> None:
    headers = token(running, user(running, "for-a-while", "admin"), "metrics")
    assert running.client.get("/metrics", headers=headers).status_code == 200
    listed = running.client.get("/api/users", headers=running.login()).json()["users"]
    number = next(one["id"] for one in listed if one["username"] == "for-a-while")
    changed = running.client.put(f"/api/users/{number}", json={"role": "viewer"}, headers=running.login())
    assert changed.status_code == 200, changed.text

    assert running.client.get("/metrics", headers=headers).status_code in (401, 403)


def test_a_request_without_a_credential_is_refused_with_401(running: InProcess) -> None:
    assert running.client.get("/metrics").status_code == 401


def test_metrics_can_be_opened_to_everyone(tmp_path: Path) -> None:
    with started(tmp_path / "data", role="api", metrics="open") as service:
        assert service.client.get("/metrics").status_code == 200


def test_metrics_that_are_off_are_not_found(tmp_path: Path) -> None:
    with started(tmp_path / "data", role="api", metrics="off") as service:
        answer = service.client.get("/metrics", headers=service.login())
        assert (answer.status_code, answer.json()["detail"]["key"]) == (404, "metrics.off")
