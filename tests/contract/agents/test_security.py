"""Attempts to break every rule of the security model."""

from typing import Any

import pytest

from backup_protocol import AUTHORIZATION_HEADER
from tests.contract.agents.agent import PASSPHRASE, Agent, Machines, now
from tests.support.service import wait_until

RUNTIME = [
    ("POST", "/api/agents/heartbeat", {}),
    ("GET", "/api/agents/jobs/poll", None),
    ("GET", "/api/agents/jobs/1", None),
    ("GET", "/api/agents/jobs/1/restore-stream", None),
    ("POST", "/api/agents/jobs/1/claim", None),
    ("POST", "/api/agents/jobs/1/start", {"started_at": "2026-01-01T00:00:00+00:00"}),
    ("POST", "/api/agents/jobs/1/progress", {}),
    ("POST", "/api/agents/jobs/1/logs", {"entries": []}),
    ("POST", "/api/agents/jobs/1/parts", {"part": 0, "items": []}),
    ("POST", "/api/agents/jobs/1/complete", {}),
    ("POST", "/api/agents/jobs/1/fail", {"error_message": "x"}),
    ("POST", "/api/agents/jobs/1/cancel", {}),
    ("POST", "/api/agents/jobs/1/canceled", {}),
    ("POST", "/api/agents/unregister", None),
]
USER_ROUTES = [
    "/api/auth/me",
    "/api/users",
    "/api/repositories/",
    "/api/operations/",
    "/api/activity/recent",
    "/api/managed-machines/agents",
    "/api/managed-machines/agent-jobs",
    "/api/audit",
]


def every_upload(agent: Agent, job: int) -> list[Any]:
    return [
        agent.job(job),
        agent.claim(job),
        agent.start(job),
        agent.post(job, "progress", {"progress_percent": 1}),
        agent.log(job, (1, "a line")),
        agent.post(job, "parts", {"part": 0, "items": []}),
        agent.complete(job),
        agent.fail(job),
        agent.canceled(job),
    ]


@pytest.mark.parametrize("header", ["X-Backup-Authorization", "Authorization", AUTHORIZATION_HEADER])
def test_a_user_credential_is_refused_on_runtime_routes(machines: Machines, header: str) -> None:
    with machines.running.anonymous() as client:
        client.headers[header] = machines.admin.headers["X-Backup-Authorization"]
        for method, path, body in RUNTIME:
            answer = client.request(method, path, json=body)
            assert answer.status_code == 401, path
            assert answer.headers["WWW-Authenticate"] == "Bearer"


def test_an_account_token_is_refused_on_runtime_routes(machines: Machines) -> None:
    token = machines.running.account_token()
    with machines.running.anonymous() as client:
        client.headers[AUTHORIZATION_HEADER] = f"Bearer {token}"
        assert client.get("/api/agents/jobs/poll").status_code == 401


@pytest.mark.parametrize("header", ["X-Backup-Authorization", "Authorization", AUTHORIZATION_HEADER])
def test_an_agent_credential_is_refused_on_all_other_routes(machines: Machines, header: str) -> None:
    agent = machines.agent(online=False)
    with machines.running.anonymous() as client:
        client.headers[header] = f"Bearer {agent.token}"
        assert {client.get(path).status_code for path in USER_ROUTES} == {401}
        assert client.post("/api/backup/start", json={"repository": "/x"}).status_code == 401


@pytest.mark.parametrize("value", ["", "Bearer", "Basic abc", "Bearer bk_agent_wrong", "bk_agent_wrong"])
def test_a_bad_credential_is_refused(machines: Machines, value: str) -> None:
    with machines.running.anonymous() as client:
        client.headers[AUTHORIZATION_HEADER] = value
        assert client.get("/api/agents/jobs/poll").status_code == 401


def test_an_agent_can_neither_see_nor_change_the_jobs_of_another_agent(machines: Machines) -> None:
    stranger = machines.agent()
    agent = machines.agent()
    repository = machines.repository(agent)
    queued = machines.backup(repository)

    assert stranger.poll(limit=10) == []
    assert {answer.status_code for answer in every_upload(stranger, queued)} == {404}
    assert machines.job(queued)["status"] == "queued"
    agent.begin(queued)
    assert {answer.status_code for answer in every_upload(stranger, queued)} == {404}
    assert machines.job(queued)["status"] == "running"
    assert machines.admin.log_lines(queued) == []


def test_an_operation_that_the_service_runs_itself_is_not_an_agent_job(machines: Machines) -> None:
    agent = machines.agent()
    local = machines.running.new_repository()
    operation = machines.admin.start_backup(local)

    assert {answer.status_code for answer in every_upload(agent, operation)} == {404}
    assert machines.admin.wait_for_end(operation)["status"] == "completed"


def test_an_agent_may_not_send_heartbeats_for_another_agent(machines: Machines) -> None:
    agent, other = machines.agent(), machines.agent()

    answer = agent.heartbeat(agent_id=other.agent_id)

    assert (answer.status_code, answer.json()["detail"]["key"]) == (403, "agents.foreign_agent_id")


@pytest.mark.parametrize("verb", ["revoke", "disable"])
def test_a_revoked_or_disabled_agent_is_refused_everywhere_and_its_jobs_fail(
    on_either_store: Machines, verb: str
) -> None:
    machines = on_either_store
    agent = machines.agent()
    repository = machines.repository(agent)
    started = machines.backup(repository)
    queued = machines.backup(repository)
    agent.begin(started)

    answer = machines.admin.post(f"/api/managed-machines/agents/{agent.id}/{verb}")

    assert answer.json()["status"] == ("revoked" if verb == "revoke" else "disabled")
    refused = [agent.heartbeat(), agent.client.get("/api/agents/jobs/poll"), *every_upload(agent, started)]
    assert {(answer.status_code, answer.json()["detail"]["key"]) for answer in refused} == {(403, "agents.revoked")}
    for job in (started, queued):
        operation = machines.admin.operation(job)
        assert (operation["status"], operation["error_key"]) == ("failed", "agents.revoked")
    start = machines.admin.post("/api/backup/start", json={"repository": repository["path"]})
    assert (start.status_code, start.json()["detail"]["key"]) == (409, "agents.revoked")


def test_a_disabled_agent_can_be_enabled_again_but_a_revoked_one_cannot(machines: Machines) -> None:
    agent = machines.agent()
    path = f"/api/managed-machines/agents/{agent.agent_id}"

    assert machines.admin.post(f"{path}/disable").json()["status"] == "disabled"
    assert machines.admin.post(f"{path}/enable").json()["status"] == "offline"
    assert agent.heartbeat().status_code == 200
    assert machines.admin.get(path).json()["status"] == "online"
    assert machines.admin.post(f"{path}/revoke").json()["status"] == "revoked"
    assert machines.admin.post(f"{path}/enable").status_code == 409
    assert machines.admin.post(f"{path}/disable").status_code == 409
    assert agent.heartbeat().status_code == 403
    assert machines.admin.get(path).json()["status"] == "revoked"


def test_a_deleted_agent_is_unknown_and_its_jobs_fail(machines: Machines) -> None:
    with machines.running_backup() as (agent, job):
        assert machines.admin.delete(f"/api/managed-machines/agents/{agent.id}").status_code == 204

        assert agent.heartbeat().status_code == 401
        assert agent.complete(job).status_code == 401
        assert machines.admin.operation(job)["error_key"] == "agents.revoked"
        assert machines.admin.get(f"/api/managed-machines/agents/{agent.id}").status_code == 404


def test_unregistering_disables_the_agent(machines: Machines) -> None:
    with machines.running_backup() as (agent, job):
        answer = agent.client.post("/api/agents/unregister")

        assert answer.json() == {"agent_id": agent.agent_id, "status": "disabled"}
        assert agent.heartbeat().status_code == 403
        assert machines.admin.operation(job)["error_key"] == "agents.revoked"


def test_only_the_assigned_agent_receives_secrets(machines: Machines) -> None:
    agent = machines.agent()
    job = machines.backup(machines.repository(agent))

    assert PASSPHRASE in str(agent.poll())
    assert PASSPHRASE in agent.claim(job).text
    shown = machines.admin.get(f"/api/managed-machines/agent-jobs/{job}")
    assert shown.json()["payload"]["backup"]["environment"]["BORG_PASSPHRASE"]["secret_ref"]
    assert shown.json()["payload"]["secrets"] == {}
    everything = [
        shown.text,
        machines.admin.get("/api/managed-machines/agent-jobs").text,
        machines.admin.get(f"/api/operations/{job}").text,
        machines.admin.get("/api/audit", params={"limit": 200}).text,
        machines.running.process.own_log(),
    ]
    assert [text for text in everything if PASSPHRASE in text] == []
    for file in machines.running.process.data_dir.glob("holdfast.db*"):
        assert PASSPHRASE.encode() not in file.read_bytes()


def test_a_passphrase_stored_on_the_agent_is_only_referenced(machines: Machines) -> None:
    agent = machines.agent()
    repository = machines.repository(agent, passphrase=None, passphrase_location="agent")
    machines.backup(repository)

    (offered,) = agent.poll()

    assert offered["payload"]["secrets"] == {}
    assert offered["payload"]["backup"]["environment"]["BORG_PASSPHRASE"] == {
        "secret_ref": f"repository-{repository['id']}"
    }
    assert repository["has_passphrase"] is False


def test_secrets_in_uploads_of_an_agent_are_redacted(machines: Machines) -> None:
    with machines.running_backup() as (agent, job):
        agent.log(job, (1, f"opening with {PASSPHRASE}"))
        agent.post(job, "progress", {"current_file": f"/x/{PASSPHRASE}"})
        wait_until(lambda: "/x/***" in machines.admin.get(f"/api/backup/status/{job}").text, what="progress is stored")
        agent.fail(job, f"could not use {PASSPHRASE}")

        assert machines.admin.log_lines(job) == ["opening with ***"]
        assert machines.admin.operation(job)["error_message"] == "could not use ***"
        assert PASSPHRASE not in machines.admin.get(f"/api/backup/status/{job}").text


def test_bodies_beyond_the_limits_are_refused(machines: Machines) -> None:
    with machines.running_backup() as (agent, job):
        line = {"sequence": 1, "stream": "stderr", "message": "x", "created_at": now()}
        many = {"entries": [{**line, "sequence": number} for number in range(1001)]}
        assert agent.post(job, "logs", many).status_code == 413
        assert agent.post(job, "logs", {**line, "message": "x" * 1_100_000}).status_code == 413
        assert agent.heartbeat(last_error="x" * 1_100_000).status_code == 413
        thousand = {"entries": many["entries"][:1000]}
        assert agent.post(job, "logs", thousand).json() == {"accepted": 1000, "duplicate": 0}


def test_refused_credentials_are_recorded_in_the_log_and_the_audit_trail(machines: Machines) -> None:
    with machines.running.anonymous() as client:
        client.headers[AUTHORIZATION_HEADER] = "Bearer bk_agent_never_given_out"
        for _ in range(20):
            client.get("/api/agents/jobs/poll")

    entries = machines.admin.get("/api/audit", params={"limit": 200}).json()["entries"]
    refused = [entry for entry in entries if (entry["details"] or {}).get("key") == "agents.credential_invalid"]
    assert refused
    log = machines.running.process.own_log()
    assert "an agent was refused" in log
    assert "never_given_out" not in log + str(entries)
