"""Enrollment tokens and registration."""

import threading

import pytest

from holdfast.kit.tokens import token_hash
from holdfast.storage.session import Database
from tests.contract.agents.agent import Machines
from tests.support.service import PATIENCE


def test_a_token_is_shown_only_once_and_listed_without_its_value(machines: Machines) -> None:
    created = machines.token(name="for the web server", expires_in_minutes=5)

    assert created["token"].startswith("bk_enroll_")
    assert created["token_prefix"] == created["token"][:16]
    assert set(created) == {"id", "name", "token", "token_prefix", "expires_at"}
    listed = machines.admin.get("/api/managed-machines/enrollment-tokens")
    (item,) = [item for item in listed.json()["tokens"] if item["id"] == created["id"]]
    assert (item["name"], item["status"], item["used_at"]) == ("for the web server", "unused", None)
    assert created["token"] not in listed.text


@pytest.mark.parametrize(
    "body", [{}, {"name": "x"}, {"name": "x", "expires_in_minutes": 4}, {"name": "x", "expires_in_minutes": 43_201}]
)
def test_a_token_requires_a_name_and_an_expiry_within_bounds(machines: Machines, body: dict[str, object]) -> None:
    assert machines.admin.post("/api/managed-machines/enrollment-tokens", json=body).status_code == 422


def test_registration_returns_the_credential_and_stores_only_hashes(machines: Machines) -> None:
    token = machines.token()["token"]
    answer = machines.register(token)

    assert answer.status_code == 200
    registered = answer.json()
    assert registered["agent_token"].startswith("bk_agent_")
    assert len(registered["agent_token"]) >= 9 + 43
    assert registered["poll_interval_seconds"] == 15
    assert registered["server_time"]
    agent = machines.admin.get(f"/api/managed-machines/agents/{registered['agent_id']}").json()
    assert (agent["status"], agent["last_seen_at"], agent["hostname"]) == ("pending", None, "far")
    assert agent["engine_versions"] == [{"major": 1, "version": "1.4.0", "path": "/usr/bin/borg"}]
    for file in machines.running.process.data_dir.glob("holdfast.db*"):
        content = file.read_bytes()
        assert token.encode() not in content
        assert registered["agent_token"].encode() not in content


def test_a_token_can_be_used_only_once(machines: Machines) -> None:
    token = machines.token()
    first = machines.register(token["token"])
    second = machines.register(token["token"])

    assert first.status_code == 200
    assert (second.status_code, second.json()["detail"]["key"]) == (401, "agents.enrollment_invalid")
    listed = machines.admin.get("/api/managed-machines/enrollment-tokens").json()["tokens"]
    (item,) = [item for item in listed if item["id"] == token["id"]]
    assert item["status"] == "used"
    agent = machines.admin.get(f"/api/managed-machines/agents/{first.json()['agent_id']}").json()
    assert item["used_by_agent_id"] == agent["id"]


def test_unknown_revoked_and_expired_tokens_are_refused_alike(machines: Machines) -> None:
    revoked = machines.token()
    path = f"/api/managed-machines/enrollment-tokens/{revoked['id']}/revoke"
    assert machines.admin.post(path).json()["status"] == "revoked"
    expired = machines.token()
    _expire(machines, expired["token"])

    answers = [machines.register(token) for token in ("bk_enroll_unknown", revoked["token"], expired["token"])]

    assert {answer.status_code for answer in answers} == {401}
    assert {answer.json()["detail"]["key"] for answer in answers} == {"agents.enrollment_invalid"}
    assert len({answer.json()["detail"]["message"] for answer in answers}) == 1


def _expire(machines: Machines, token: str) -> None:
    database = Database(
        machines.running.process.database_url or f"sqlite:///{machines.running.process.data_dir}/holdfast.db"
    )
    with database.engine.begin() as connection:
        connection.exec_driver_sql(
            "UPDATE agent_enrollment_tokens SET expires_at = '2020-01-01 00:00:00.000000' "
            f"WHERE token_hash = '{token_hash(token)}'"
        )
    database.dispose()


def test_of_100_simultaneous_registrations_with_one_token_only_one_succeeds(on_either_store: Machines) -> None:
    machines = on_either_store
    token = machines.token()["token"]
    body = machines.registration(token)
    codes: list[int] = []
    together = threading.Barrier(10)

    def try_ten_times() -> None:
        with machines.running.anonymous() as client:
            together.wait(PATIENCE)
            codes.extend(client.post("/api/agents/register", json=body).status_code for _ in range(10))

    threads = [threading.Thread(target=try_ten_times) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)

    assert sorted(codes) == [200] + [401] * 99
    agents = machines.admin.get("/api/managed-machines/agents").json()["agents"]
    assert len([agent for agent in agents if agent["name"] == body["name"]]) == 1


def test_enrollment_is_audited_and_logged_without_any_token(machines: Machines) -> None:
    token = machines.token()
    registered = machines.register(token["token"]).json()
    machines.register(token["token"])

    entries = machines.admin.get("/api/audit", params={"limit": 200}).json()["entries"]
    actions = {entry["action"] for entry in entries}
    assert {"agent.enrollment_token_created", "agent.registered", "access.refused"} <= actions
    told = str(entries) + machines.running.process.own_log()
    assert "an agent has registered" in told
    assert token["token"] not in told
    assert registered["agent_token"] not in told


def test_only_admins_may_manage_agents_and_enrollment_tokens(machines: Machines) -> None:
    operator = machines.running.stranger
    for method, path in [
        ("GET", "/"),
        ("GET", "/agents"),
        ("GET", "/enrollment-tokens"),
        ("GET", "/agent-jobs"),
        ("POST", "/agents/1/revoke"),
        ("DELETE", "/agents/1"),
    ]:
        assert operator.request(method, f"/api/managed-machines{path}").status_code == 403, path
    body = {"name": "mine", "expires_in_minutes": 60}
    assert operator.post("/api/managed-machines/enrollment-tokens", json=body).status_code == 403
