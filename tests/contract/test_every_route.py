"""Every operation of the OpenAPI document, requested by callers to whom it must reveal nothing."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.contract.every_route import NOTHING, Route, Subject, ask, routes
from tests.support.running import PASSWORD, Running, Services
from tests.support.service import wait_until

PUBLIC = {
    "POST /api/auth/login",
    "POST /api/auth/login/totp",
    "POST /api/auth/invitation",  # the invitation is the credential
    "POST /api/auth/invitation/accept",
    "GET /health/live",
    "GET /health/ready",
    "POST /api/agents/register",
    "GET /agent/install.sh",
    "GET /agent/wheels/",
    "GET /agent/wheels/{name}",
    "GET /api/downloads/{ticket}",  # the ticket in its path is the credential
}
WITH_A_PASSWORD_TO_CHANGE = {
    "GET /api/auth/me",
    "POST /api/auth/change-password",
    "POST /api/auth/logout",
}
ENDS_THE_SESSION = {"/api/auth/logout", "/api/auth/change-password"}
MUST_CHANGE = "auth.password_change_required"
SECRET = "the-hidden-heron-sleeps-at-noon"


@dataclass(frozen=True)
class Hidden:
    """A repository with an archive and operations of every kind, all waiting behind a held backup."""

    running: Running
    subject: Subject
    words: tuple[str, ...]

    def traces(self) -> dict[str, Any]:
        admin, repository = self.running.admin, self.subject.ids["repository_id"]
        operations = admin.get("/api/operations/", params={"repository_id": repository}).json()["items"]
        read = admin.get(f"/api/repositories/{repository}").json()
        users = admin.get("/api/users").json()["users"]
        packages = admin.get("/api/packages/").json()["packages"]
        queue = admin.get("/api/operations/queue").json()
        return {
            "operations": [(item["id"], item["status"], item["cancel_requested"]) for item in operations],
            "repository": read,
            "users": [user["username"] for user in users],
            "packages": packages,
            "settings": (queue["limits"], queue["paused"]),
        }


@pytest.fixture(scope="module")
def hidden(services: Services) -> Iterator[Hidden]:
    # Its repository is busy, and dozens of requests wait for it.
    with services.own(HOLDFAST_INLINE_WAIT_SECONDS="0.3") as running:
        yield from _hidden(running)


def _hidden(running: Running) -> Iterator[Hidden]:
    admin = running.admin
    source = running.new_source()
    repository = running.new_repository(
        path=running.new_path("hidden-heron"),
        source_paths=[source],
        encryption="repokey-blake2",
        passphrase=SECRET,
        index_mode="archives",
    )
    place = f"/api/repositories/{repository['id']}"
    backup = admin.wait_for_end(admin.start_backup(repository, archive_name="heron-archive"))
    archives = wait_until(
        lambda: admin.get(f"{place}/archives").json()["archives"], 60, what="the archive is in the index"
    )
    work = {"repository_id": repository["id"], "status": ["pending", "running"]}
    wait_until(lambda: not admin.get("/api/operations/", params=work).json()["items"], what="nothing runs")
    admin.put(place, json={"index_mode": "off"})
    preview = admin.post(f"{place}/wipe-preview", json={}).json()
    remote = admin.post(
        "/api/rclone/remotes", json={"name": running.new_name("remote-heron"), "provider": "local"}
    ).json()
    mirror = {"remote_id": remote["id"], "path": str(running.new_path("mirror-heron"))}
    with running.held_backup(repository):
        restore = {"repository_id": repository["id"], "archive_id": archives[0]["id"], "paths": []}
        started = {
            "check-jobs": admin.post(f"{place}/check", json={}),
            "prune-jobs": admin.post(f"{place}/prune", json={"keep_last": 1}),
            "compact-jobs": admin.post(f"{place}/compact", json={}),
            "restore-check-jobs": admin.post(f"{place}/restore-check", json={}),
            "delete-jobs": admin.delete(f"/api/archives/{archives[0]['id']}"),
            "restore": admin.post(
                "/api/restore/start", json={**restore, "destination": str(running.new_folder("restored"))}
            ),
        }
        jobs = {word: answer.json()["job_id"] for word, answer in started.items()}
        jobs["sync"] = admin.put(f"{place}/mirror", json=mirror).json()["sync_operation_id"]
        opens = datetime.now(UTC) + timedelta(hours=12)
        plan = {"name": running.new_name("schedule-heron"), "cron_expression": "0 0 29 2 *"}
        window = {"from": f"{opens:%H:%M}", "to": f"{opens + timedelta(minutes=1):%H:%M}"}
        targets = {"targets": {"repository_ids": [repository["id"]]}, "windows": [window]}
        schedule = admin.post("/api/schedules/", json={**plan, **targets}).json()
        waiting = admin.post(f"/api/schedules/{schedule['id']}/run", json={"respect_windows": True}).json()
        ids = {
            **jobs,
            "schedule_id": schedule["id"],
            "schedule_run_id": waiting["runs"][0]["id"],
            "repository_id": repository["id"],
            "archive_id": archives[0]["id"],
            "wipe-jobs": preview["id"],
            "operation_id": backup["id"],
            "alarm_id": running.new_alarm(repository),
        }
        words = (repository["name"], repository["path"], "heron", SECRET, str(source))
        yield Hidden(running, Subject(repository["path"], "heron-archive", ids), words)
        admin.delete(f"/api/schedules/{schedule['id']}")
        for job_id in jobs.values():
            admin.post(f"/api/operations/{job_id}/cancel")


@pytest.fixture(scope="module")
def document(hidden: Hidden) -> list[Route]:
    found = routes(hidden.running.anonymous())
    assert len(found) > 90
    return found


def test_an_administrator_can_read_every_route_about_the_repository(hidden: Hidden, document: list[Route]) -> None:
    """Without this, the refusals of other callers would prove nothing.

    Routes that run the engine are left out: they would wait for the held backup.
    """
    asked = 0
    for route in document:
        if route.method == "GET" and is_about_the_repository(route) and "423" not in route.answers:
            for request in route.requests_about(hidden.subject):
                status, text = ask(hidden.running.admin, route, request)
                assert status == 200, (route.name, text)
                asked += 1

    assert asked > 20


def test_the_document_names_the_credentials_of_every_route_except_the_public_ones(document: list[Route]) -> None:
    for route in document:
        own = {"AgentBearer"} if is_for_agents(route) else {"BackupBearer", "Bearer"}
        assert route.credentials == (set() if route.name in PUBLIC else own), route.name


def test_every_route_except_the_public_ones_returns_401_without_a_credential(
    hidden: Hidden, document: list[Route]
) -> None:
    before = hidden.traces()
    with hidden.running.anonymous() as client:
        for route in document:
            for request in route.requests_about(hidden.subject):
                status, text = ask(client, route, request)
                if route.name in PUBLIC:
                    assert status in (200, 401, 404, 422), (route.name, status, text)
                else:
                    key = "agents.credential_missing" if is_for_agents(route) else "auth.credential_missing"
                    assert (status, key_of(text)) == (401, key), (route.name, text)
                assert_tells_nothing(hidden, request, route, text)

    assert {route.name for route in document} >= PUBLIC
    assert hidden.traces() == before


def test_a_user_without_rights_cannot_tell_a_hidden_repository_from_a_missing_one(
    hidden: Hidden, document: list[Route]
) -> None:
    """The user is an operator, the highest role that does not include every repository: all responses are the same."""
    stranger = hidden.running.new_user("operator")
    client = hidden.running.client_of(stranger)
    before = hidden.traces()
    for route in document:
        asked = zip(route.requests_about(hidden.subject), route.requests_about(NOTHING), strict=True)
        for about_it, about_nothing in asked:
            status, text = ask(client, route, about_it)
            if route.path in ENDS_THE_SESSION:
                client.login(stranger["username"], PASSWORD)
            same_status, same_text = ask(client, route, about_nothing)
            if route.path in ENDS_THE_SESSION:
                client.login(stranger["username"], PASSWORD)
            assert status == same_status, (route.name, text, same_text)
            assert status < 500, (route.name, text)
            assert_tells_nothing(hidden, about_it, route, text)
            if status >= 400 and route.name not in PUBLIC:
                assert without_ids(text, hidden.subject) == without_ids(same_text, NOTHING), route.name
            if is_for_agents(route):
                assert (status, key_of(text)) == (401, "agents.credential_missing"), (route.name, text)
            elif is_about_the_repository(route):
                assert status == 404, (route.name, status, text)
            elif "{" in route.path or route.takes is not None:
                assert status in (200, 201, 204, 401, 403, 404, 409, 422), (route.name, status, text)

    assert hidden.traces() == before


def test_a_user_who_must_change_the_password_may_do_nothing_else(hidden: Hidden, document: list[Route]) -> None:
    user = hidden.running.new_user("admin", must_change_password=True)
    before = hidden.traces()
    client = hidden.running.client_of(user)
    for route in document:
        if route.name in PUBLIC | WITH_A_PASSWORD_TO_CHANGE:
            continue
        for request in route.requests_about(hidden.subject):
            status, text = ask(client, route, request)
            refusal = (401, "agents.credential_missing") if is_for_agents(route) else (403, MUST_CHANGE)
            assert (status, key_of(text)) == refusal, (route.name, text)
            assert_tells_nothing(hidden, request, route, text)
    assert client.get("/api/auth/me").json()["must_change_password"] is True
    assert client.post("/api/auth/logout").status_code == 204

    assert hidden.traces() == before


def is_for_agents(route: Route) -> bool:
    """Routes that do not accept a user's credential."""
    return route.path.startswith("/api/agents/") and route.name not in PUBLIC


def is_about_the_repository(route: Route) -> bool:
    """Routes on the repository, its archives or its jobs.

    The rights of users are left out, which only administrators change, and so are agent jobs, which are not jobs of
    this repository.
    """
    others = ("/api/users", "/api/packages", "/api/settings", "/api/agents", "/api/managed-machines")
    return not route.path.startswith(others) and any(
        parameter in route.path for parameter in ("{repository_id}", "{archive_id}", "{job_id}", "{operation_id}")
    )


def key_of(text: str) -> str | None:
    detail = json.loads(text)["detail"] if text else None
    return detail["key"] if isinstance(detail, dict) else None


def without_ids(text: str, subject: Subject) -> str:
    return subject.named_in(text.replace("7654321", "…"))


def assert_tells_nothing(hidden: Hidden, request: dict[str, Any], route: Route, text: str) -> None:
    """Assert that a response reveals nothing about the repository except what the request itself contained."""
    said = json.dumps([request.get("json"), request.get("params")])
    for word in hidden.words:
        left = text.replace(hidden.subject.path, "") if hidden.subject.path in said else text
        assert word not in left, (route.name, word)
