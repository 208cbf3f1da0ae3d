"""Restores that an agent receives: only the agent that runs the job gets the files, and never a passphrase."""

import io
import json
import tarfile
from typing import Any

from backup_protocol import AUTHORIZATION_HEADER
from backup_protocol.frames import DATA, END, HEAD, SURVEY
from tests.contract.agents.agent import EVERYTHING, Agent, Machines
from tests.contract.fields import error_of
from tests.support.running import PASSPHRASE


def restore(machines: Machines, agent_id: int | None, **more: Any) -> Any:
    known = machines.running.known
    body = {
        "repository_id": known.repository["id"],
        "archive": machines.admin.operation(known.job_id)["archive_name"],
        "destination": "/far/restored",
        "destination_type": "agent",
        **({"destination_machine_id": agent_id} if agent_id is not None else {}),
        **more,
    }
    return machines.admin.post("/api/restore/start", json=body)


def started(machines: Machines, agent: Agent, **more: Any) -> int:
    answer = restore(machines, agent.id, **more)
    assert answer.status_code == 200, answer.text
    return int(answer.json()["job_id"])


def stream(agent: Agent, job: int) -> Any:
    return agent.client.get(f"/api/agents/jobs/{job}/restore-stream")


def frames(content: bytes) -> list[tuple[bytes, bytes]]:
    found, at = [], 0
    while at < len(content):
        letter, size = HEAD.unpack_from(content, at)
        at += HEAD.size + size
        found.append((letter, content[at - size : at]))
    return found


def test_the_agent_receives_files_and_outcome_in_one_stream_without_a_passphrase(machines: Machines) -> None:
    agent = machines.agent()
    job = started(machines, agent)
    [handed_out] = agent.poll()
    assert (handed_out["id"], handed_out["payload"]["job_kind"]) == (job, "restore.receive")
    assert PASSPHRASE not in json.dumps(handed_out)
    assert handed_out["payload"]["secrets"] == handed_out["payload"]["restore"]["environment"] == {}
    agent.begin(job)

    answer = stream(agent, job)

    assert answer.status_code == 200, answer.text
    parts = frames(answer.content)
    assert json.loads(parts[0][1])["files"] == 3
    assert (parts[0][0], {letter for letter, _ in parts[1:-1]}, parts[-1][0]) == (SURVEY, {DATA}, END)
    assert json.loads(parts[-1][1])["status"] == "completed"
    with tarfile.open(fileobj=io.BytesIO(b"".join(content for _, content in parts[1:-1]))) as tar:
        assert len([entry for entry in tar.getmembers() if entry.isreg()]) == 3
    agent.complete(job, details={"files_restored": 3, "bytes_restored": 9})
    ended = machines.admin.wait_for_end(job)
    assert (ended["status"], ended["result"]["files_restored"]) == ("completed", 3)
    assert stream(agent, job).status_code == 409, "a job that has ended gives nothing any more"


def test_a_missing_path_and_a_dry_run_send_no_files(machines: Machines) -> None:
    agent = machines.agent()
    missing, tried = started(machines, agent, paths=["no/such/file"]), started(machines, agent, dry_run=True)
    agent.begin(missing)
    agent.begin(tried)

    [(letter, content)] = frames(stream(agent, missing).content)
    assert (letter, json.loads(content)["error_key"]) == (END, "archives.path_not_found")
    assert [letter for letter, _ in frames(stream(agent, tried).content)] == [SURVEY, END]
    agent.fail(missing)
    agent.complete(tried)


def test_only_the_agent_that_runs_the_job_receives_the_files(machines: Machines) -> None:
    agent, stranger = machines.agent(), machines.agent()
    job = started(machines, agent)
    path = f"/api/agents/jobs/{job}/restore-stream"

    assert error_of(stream(agent, job)) == (409, "agents.not_running"), "a job that is not claimed gives nothing"
    agent.begin(job)
    assert error_of(stream(stranger, job)) == (404, "agents.job_not_found")
    with machines.running.anonymous() as client:
        assert client.get(path).status_code == 401
        for header in ("X-Backup-Authorization", AUTHORIZATION_HEADER):
            client.headers[header] = machines.admin.headers["X-Backup-Authorization"]
            assert client.get(path).status_code == 401
    assert machines.admin.post(f"/api/managed-machines/agents/{agent.id}/revoke").status_code == 200
    assert stream(agent, job).status_code == 403
    assert machines.admin.operation(job)["status"] == "failed"


def test_a_job_that_receives_nothing_has_no_stream(machines: Machines) -> None:
    with machines.running_backup() as (agent, job):
        assert error_of(stream(agent, job)) == (404, "agents.job_not_found")
        agent.fail(job)


def test_a_restore_to_an_agent_that_cannot_receive_is_refused(machines: Machines) -> None:
    old = machines.agent(capabilities=[word for word in EVERYTHING if word != "restore.receive"])
    away = machines.agent()
    machines.admin.post(f"/api/managed-machines/agents/{away.id}/revoke")

    assert error_of(restore(machines, None)) == (422, "restore.agent_missing")
    assert error_of(restore(machines, 7_654_321)) == (422, "restore.unknown_agent")
    assert error_of(restore(machines, old.id)) == (422, "restore.agent_too_old")
    assert error_of(restore(machines, away.id)) == (409, "agents.revoked")
    assert old.poll() == []


def test_an_agent_receives_files_of_another_agents_repository_without_its_passphrase(machines: Machines) -> None:
    agent, other = machines.agent(), machines.agent()
    body = {"repository_id": machines.repository(agent)["id"], "archive": "any", "destination": "/x"}
    to = {"destination_type": "agent", "destination_machine_id": other.id}
    answer = machines.admin.post("/api/restore/start", json={**body, **to})

    assert answer.status_code == 200, answer.text
    [handed_out] = other.poll()
    assert (handed_out["id"], handed_out["payload"]["job_kind"]) == (answer.json()["job_id"], "restore.receive")
    assert handed_out["payload"]["secrets"] == {}
    assert agent.poll() == []
