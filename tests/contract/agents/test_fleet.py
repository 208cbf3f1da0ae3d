"""The agents of a service: their status, what they report, and what happens when they are silent."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.agents.agent import LONG_AGO, Agent, Machines, now
from tests.support.running import Services
from tests.support.service import wait_until


@pytest.fixture(scope="module")
def impatient(services: Services) -> Iterator[Machines]:
    """A service that considers agents offline after a second and a half."""
    with services.own(HOLDFAST_AGENT_OFFLINE_SECONDS="1.5", HOLDFAST_AGENT_POLL_SECONDS="3") as running:
        yield Machines(running)


def status(machines: Machines, agent: Agent) -> str:
    found: str = machines.admin.get(f"/api/managed-machines/agents/{agent.id}").json()["status"]
    return found


def test_an_agent_is_pending_until_its_first_heartbeat(machines: Machines) -> None:
    agent = machines.agent(online=False)
    assert status(machines, agent) == "pending"

    answer = agent.heartbeat().json()

    assert status(machines, agent) == "online"
    assert (answer["poll_interval_seconds"], answer["heartbeat_interval_seconds"]) == (15, 30)
    assert answer["cancel_job_ids"] == []
    assert answer["server_time"]


def test_a_heartbeat_updates_what_the_agent_reports_about_itself(machines: Machines) -> None:
    agent = machines.agent()
    engines = [{"major": 2, "version": "2.0.0", "path": "/opt/borg2"}]
    agent.heartbeat(
        hostname="renamed",
        agent_version="9.9",
        engine_versions=engines,
        capabilities=["backup.create"],
        last_error="oh",
    )

    shown = machines.admin.get(f"/api/managed-machines/agents/{agent.agent_id}").json()
    assert (shown["hostname"], shown["agent_version"], shown["last_error"]) == ("renamed", "9.9", "oh")
    assert (shown["engine_versions"], shown["capabilities"]) == (engines, ["backup.create"])
    assert shown["last_seen_at"] is not None


def test_machines_are_listed_with_their_connection_type(machines: Machines) -> None:
    agent = machines.agent()
    listed = machines.admin.get("/api/managed-machines/").json()["machines"]
    (machine,) = [machine for machine in listed if machine["id"] == agent.id]
    assert (machine["connection_type"], machine["status"]) == ("agent", "online")


def test_a_listed_machine_shows_its_repositories_work_and_versions(machines: Machines) -> None:
    agent, other = machines.agent(), machines.agent()
    machines.repository(agent)
    job = machines.backup(machines.repository(agent))
    agent.heartbeat(agent_version="0.0.1")
    listed = {one["key"]: one for one in machines.admin.get("/api/managed-machines/").json()["machines"]}
    assert len(listed) == len(machines.admin.get("/api/managed-machines/").json()["machines"])
    mine, empty = listed[f"agent:{agent.id}"], listed[f"agent:{other.id}"]
    assert (mine["repository_count"], mine["running"], mine["last_backup_at"]) == (2, 0, None)
    assert (mine["agent_version"], mine["update_available"]) == ("0.0.1", True)
    assert mine["engine_versions"] == [one["version"] for one in agent_of(machines, agent.id)["engine_versions"]]
    assert (empty["repository_count"], empty["running"], empty["last_backup_at"]) == (0, 0, None)

    agent.begin(job)
    agent.complete(job)
    machines.admin.wait_for_end(job)
    again = machines.admin.get("/api/managed-machines/").json()["machines"]
    assert [one["last_backup_at"] is None for one in again if one["key"] == mine["key"]] == [False]


def agent_of(machines: Machines, agent_id: int) -> dict[str, Any]:
    found: dict[str, Any] = machines.admin.get(f"/api/managed-machines/agents/{agent_id}").json()
    return found


def test_the_name_and_labels_of_an_agent_can_be_changed(machines: Machines) -> None:
    agent = machines.agent()
    path = f"/api/managed-machines/agents/{agent.id}"
    changed = machines.admin.put(path, json={"name": "the web server", "labels": {"site": "here"}}).json()
    assert (changed["name"], changed["labels"]) == ("the web server", {"site": "here"})
    assert machines.admin.put(path, json={"status": "online"}).status_code == 422
    assert agent.heartbeat().status_code == 200


def test_clock_skew_is_measured_and_times_of_the_agent_are_corrected(machines: Machines) -> None:
    agent = machines.agent()
    agent.heartbeat(sent_at=LONG_AGO)
    skew = machines.admin.get(f"/api/managed-machines/agents/{agent.id}").json()["clock_skew_seconds"]
    assert skew < -1_000_000
    job = machines.backup(machines.repository(agent))
    before = now()
    agent.claim(job)
    agent.post(job, "start", {"started_at": LONG_AGO})
    agent.post(job, "complete", {"completed_at": "2050-01-01T00:00:00+00:00", "result": {"return_code": 0}})

    shown = machines.job(job)
    assert before <= shown["claimed_at"] <= shown["started_at"] <= shown["completed_at"] <= now()


def test_a_silent_agent_goes_offline_and_its_jobs_keep_their_state(impatient: Machines) -> None:
    agent = impatient.agent()
    started = impatient.backup(impatient.repository(agent))
    agent.begin(started)
    queued = impatient.backup(impatient.repository(agent))

    wait_until(lambda: status(impatient, agent) == "offline", what="the agent is offline")

    assert impatient.job(started)["status"] == "running"
    assert impatient.job(queued)["status"] == "queued"
    assert impatient.admin.operation(queued)["queued_reason"] == "agent_offline"
    assert agent.complete(started).json()["status"] == "completed"

    def is_back() -> bool:
        assert agent.heartbeat().json()["poll_interval_seconds"] == 3
        return status(impatient, agent) == "online" and not impatient.admin.operation(queued)["queued_reason"]

    wait_until(is_back, what="the agent is back")
    actions = [entry["details"] for entry in impatient.admin.get("/api/audit?action=agent.status").json()["entries"]]
    assert {"before": "online", "now": "offline"} in actions


def test_an_offline_agent_that_polls_gets_its_jobs(impatient: Machines) -> None:
    agent = impatient.agent()
    job = impatient.backup(impatient.repository(agent))
    wait_until(lambda: status(impatient, agent) == "offline", what="the agent is offline")

    assert [offered["id"] for offered in agent.poll()] == [job]
    agent.begin(job)


def test_a_killed_service_restores_its_agents_and_jobs(impatient: Machines) -> None:
    machines = impatient
    agent = machines.agent()
    job = machines.backup(machines.repository(agent))
    agent.begin(job)
    agent.log(job, (1, "before"))

    machines.running.process.kill()
    machines.running.process.restart()

    assert machines.job(job)["status"] == "running"
    assert agent.heartbeat(running_job_ids=[job]).json()["cancel_job_ids"] == []
    assert agent.log(job, (1, "before"), (2, "after")).json() == {"accepted": 1, "duplicate": 1}
    assert agent.complete(job).json()["status"] == "completed"
    assert machines.admin.log_lines(job) == ["before", "after"]


def test_the_installer_and_its_wheels_are_served_without_a_credential(machines: Machines) -> None:
    with machines.running.anonymous() as client:
        assert client.get("/agent/install.sh").text.startswith("#!/bin/sh")
        index = client.get("/agent/wheels/").text.split()
        assert index
        wheel = client.get(f"/agent/wheels/{index[1]}")
        assert (wheel.status_code, wheel.content[:2]) == (200, b"PK")
        assert client.get("/agent/wheels/other-1.0-py3-none-any.whl").status_code == 404


def test_responses_from_memory_match_those_of_the_routes(machines: Machines) -> None:
    agent = machines.agent(online=False)
    stored = agent.heartbeat()
    idle = wait_until(lambda: answer if (answer := agent.heartbeat()).status_code == 200 else None)

    assert set(idle.json()) == set(stored.json())
    for answer in (stored, idle):
        assert len(answer.headers["X-Request-Id"]) == 32
        assert answer.headers["Content-Type"] == "application/json"
    for query in ("", "?limit=3", "?limit=3&wait=0", "?wait=0.01"):
        answer = agent.client.get(f"/api/agents/jobs/poll{query}")
        assert (answer.status_code, answer.json()) == (200, {"jobs": []})
        assert len(answer.headers["X-Request-Id"]) == 32
    assert agent.client.get("/api/agents/jobs/poll?limit=x").status_code == 422
    assert agent.heartbeat(hostname=5).status_code == 422
    assert agent.client.post("/api/agents/heartbeat", content=b"{").status_code == 422


def test_a_heartbeat_body_sent_in_many_chunks_is_accepted(machines: Machines) -> None:
    agent = machines.agent()
    body = json.dumps({"agent_id": agent.agent_id, "hostname": "far", "agent_version": "1.0"}).encode()

    def pieces() -> Iterator[bytes]:
        for start in range(0, len(body), 10):
            yield body[start : start + 10]

    answer = agent.client.post("/api/agents/heartbeat", content=pieces(), headers={"Content-Type": "application/json"})
    assert answer.status_code == 200


def test_a_diagnosis_reports_what_is_wrong_with_an_agent_and_only_access_if_it_is_disabled(machines: Machines) -> None:
    agent = machines.agent()
    agent.heartbeat(agent_version="0.0.1", engine_versions=[], capabilities=["backup.create"], last_error="oh")
    url = f"/api/managed-machines/agents/{agent.agent_id}"

    told = machines.admin.post(f"{url}/diagnose").json()

    assert told["verdict"] == "failed"
    verdicts = {one["step"]: one["verdict"] for one in told["findings"]}
    assert verdicts.pop("clock", "ok") == "ok"
    assert verdicts == {
        "access": "ok",
        "connection": "ok",
        "answer": "warning",
        "engine": "failed",
        "version": "warning",
        "last_error": "warning",
    }
    assert machines.admin.post(f"{url}/disable").status_code == 200
    (only,) = machines.admin.post(f"{url}/diagnose").json()["findings"]
    assert (only["step"], only["verdict"]) == ("access", "failed")
