"""Every route, called by users of every role, account tokens of every scope, and agents.

The expected responses follow from the table beside this file. Requests concern a repository on which the viewer and
the operator have rights and the stranger has none; ids that it cannot provide are those of things that do not exist.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.attacks.roles.table import Row, rows
from tests.contract.every_route import Route, ask, routes
from tests.contract.test_every_route import ENDS_THE_SESSION, Hidden, key_of
from tests.support.agents import enrollment_token
from tests.support.running import PASSWORD, Running
from tests.support.service import Client

TABLE = rows()
LOGIN_NEEDED = (403, "auth.login_token_required")
FORBIDDEN = (403, "access.forbidden")
READS_ONLY = (403, "auth.scope_too_narrow")
AGENT_HEADER = "X-Backup-Agent-Authorization"
RANKS = ("viewer", "operator", "admin")
ENDS_THE_AGENT = "/api/agents/unregister"
ORDER = {"GET": 0, "POST": 1, "PUT": 1, "PATCH": 1, "DELETE": 2}


@dataclass
class Caller:
    """A client that stays signed in while it calls every route."""

    client: Client
    username: str | None = None

    def call(self, route: Route, request: dict[str, Any]) -> tuple[int, str]:
        answer = ask(self.client, route, request)
        if route.path in ENDS_THE_SESSION and self.username is not None:
            self.client.login(self.username, PASSWORD)
        return answer


@pytest.fixture(scope="module")
def document(hidden: Hidden) -> list[Route]:
    """Reads first and deletions last, so that no caller deletes what later requests are about."""
    return sorted(
        routes(hidden.running.anonymous()), key=lambda route: (route.path in ENDS_THE_AGENT, ORDER[route.method])
    )


def user(running: Running, role: str) -> Caller:
    created = running.new_user(role)
    return Caller(running.client_of(created), created["username"])


def with_right(hidden: Hidden, role: str) -> Caller:
    caller = user(hidden.running, role)
    users = hidden.running.admin.get("/api/users").json()["users"]
    user_id = next(one["id"] for one in users if one["username"] == caller.username)
    path = f"/api/users/{user_id}/repositories/{hidden.subject.ids['repository_id']}"
    assert hidden.running.admin.put(path, json={"role": role}).status_code == 200
    return caller


def with_token(hidden: Hidden, scope: str) -> Caller:
    admin = hidden.running.client_of(hidden.running.new_user("admin"))
    body = {"name": f"token to {scope}", "scope": scope}
    client = hidden.running.anonymous()
    client.headers["X-Backup-Authorization"] = f"Bearer {admin.post('/api/settings/tokens', json=body).json()['token']}"
    return Caller(client)


def agent(hidden: Hidden) -> tuple[Caller, str]:
    """An agent with its credential, and its id."""
    running = hidden.running
    body = {"enrollment_token": enrollment_token(running.admin), "name": running.new_name("agent"), "capabilities": []}
    machine = {"hostname": "machine", "os": "linux", "arch": "x86_64", "agent_version": "0", "engine_versions": []}
    answer = running.anonymous().post("/api/agents/register", json={**body, **machine})
    assert answer.status_code == 200, answer.text
    client = running.anonymous()
    client.headers[AGENT_HEADER] = f"Bearer {answer.json()['agent_token']}"
    return Caller(client), answer.json()["agent_id"]


def outcomes(hidden: Hidden, document: list[Route], caller: Caller) -> Iterator[tuple[Route, Row, int, str]]:
    for route in document:
        for request in route.requests_about(hidden.subject):
            status, text = caller.call(route, request)
            assert status < 500, (route.name, text)
            yield route, TABLE[route.name], status, text


def refusal(status: int, text: str) -> tuple[int, str | None]:
    return status, key_of(text) if status in (401, 403, 404) else None


def test_every_route_has_a_row_and_every_row_a_route(document: list[Route]) -> None:
    names = {route.name for route in document}

    assert sorted(names - TABLE.keys()) == [], "say in table.py who may call it"
    assert sorted(TABLE.keys() - names) == []


def test_a_stranger_is_refused_wherever_a_right_is_needed(hidden: Hidden, document: list[Route]) -> None:
    for route, row, status, text in outcomes(hidden, document, user(hidden.running, "operator")):
        if row.least == "administrator":
            assert refusal(status, text) == FORBIDDEN, route.name
        elif row.least in RANKS:
            names_nothing = status == 422 and "{" not in route.path
            assert status == 404 or names_nothing, (route.name, status, text)
        elif row.least == "anyone":
            assert status not in (401, 403), (route.name, status, text)


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_a_right_on_the_repository_permits_exactly_the_routes_in_the_table(
    hidden: Hidden, document: list[Route], role: str
) -> None:
    for route, row, status, text in outcomes(hidden, document, with_right(hidden, role)):
        if row.least == "administrator":
            assert refusal(status, text) == FORBIDDEN, route.name
        elif row.least not in RANKS:
            continue
        elif RANKS.index(row.least) <= RANKS.index(role):
            assert status not in (401, 403), (route.name, status, text)
            assert key_of_refusal(status, text) != "repository.not_found", route.name
        else:
            assert refusal(status, text) == FORBIDDEN, (route.name, status, text)


def test_an_account_token_for_metrics_permits_only_metrics(hidden: Hidden, document: list[Route]) -> None:
    for route, row, status, text in outcomes(hidden, document, with_token(hidden, "metrics")):
        if route.path == "/metrics":
            assert status == 200, text
        elif row.least not in ("public", "agent"):
            assert refusal(status, text) == READS_ONLY, (route.name, status, text)


@pytest.mark.parametrize("scope", ["read", "operate", "admin"])
def test_an_admins_account_token_permits_what_its_scope_allows(
    hidden: Hidden, document: list[Route], scope: str
) -> None:
    for route, row, status, text in outcomes(hidden, document, with_token(hidden, scope)):
        if row.least in ("public", "agent"):
            continue
        if row.credential == "login":
            assert refusal(status, text) == LOGIN_NEEDED, (route.name, status, text)
        elif route.method == "GET" or row.credential == "reads":
            assert status not in (401, 403) or key_of(text) == LOGIN_NEEDED[1], (route.name, status, text)
        elif scope == "read":
            assert refusal(status, text) == READS_ONLY, (route.name, status, text)
        elif scope == "operate" and row.least in ("admin", "administrator"):
            assert refusal(status, text) == FORBIDDEN, (route.name, status, text)
        else:
            assert status not in (401, 403), (route.name, status, text)


def test_an_agents_credential_does_not_permit_user_routes(hidden: Hidden, document: list[Route]) -> None:
    caller, _ = agent(hidden)
    caller.client.headers["X-Backup-Authorization"] = caller.client.headers[AGENT_HEADER]
    for route, row, status, text in outcomes(hidden, document, caller):
        if row.least not in ("public", "agent"):
            assert status == 401, (route.name, status, text)


def test_an_agent_cannot_access_jobs_of_other_agents(hidden: Hidden, document: list[Route]) -> None:
    caller, _ = agent(hidden)
    for route, row, status, text in outcomes(hidden, document, caller):
        if row.least == "agent" and "{job_id}" in route.path:
            assert status in (404, 422), (route.name, status, text)
        elif row.least not in ("public", "agent"):
            assert status == 401, (route.name, status, text)


def test_a_revoked_agent_is_refused_everywhere(hidden: Hidden, document: list[Route]) -> None:
    caller, agent_id = agent(hidden)
    assert hidden.running.admin.post(f"/api/managed-machines/agents/{agent_id}/revoke").status_code == 200
    caller.client.headers["X-Backup-Authorization"] = caller.client.headers[AGENT_HEADER]
    for route, row, status, text in outcomes(hidden, document, caller):
        if row.least == "agent":
            assert refusal(status, text) == (403, "agents.revoked"), (route.name, status, text)
        elif row.least != "public":
            assert status == 401, (route.name, status, text)


def test_a_users_credential_does_not_permit_agent_routes(hidden: Hidden, document: list[Route]) -> None:
    caller = user(hidden.running, "admin")
    caller.client.headers[AGENT_HEADER] = caller.client.headers["X-Backup-Authorization"]
    for route in document:
        if TABLE[route.name].least == "agent":
            for request in route.requests_about(hidden.subject):
                status, text = ask(caller.client, route, request)
                assert status == 401, (route.name, status, text)


def test_an_admin_is_never_refused(hidden: Hidden, document: list[Route]) -> None:
    """Last: an admin may delete what the other requests are about."""
    for route, row, status, text in outcomes(hidden, document, user(hidden.running, "admin")):
        if row.least not in ("public", "agent"):
            assert status not in (401, 403), (route.name, status, text)


def key_of_refusal(status: int, text: str) -> str | None:
    return key_of(text) if status == 404 else None
