"""An agent for tests: plain HTTP by the contract, without any code of the real agent."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from backup_protocol import AUTHORIZATION_HEADER, Capability, JobKind
from tests.support.running import Running
from tests.support.service import Client

EVERYTHING = [*map(str, JobKind), *map(str, Capability)]
PASSPHRASE = "a secret of the far machine"
LONG_AGO = "2020-01-01T00:00:00+00:00"


def now() -> str:
    return datetime.now(UTC).isoformat()


class Agent:
    """A registered machine and its credential."""

    def __init__(self, client: Client, answer: dict[str, Any], admin: Client) -> None:
        self.client = client
        self.agent_id: str = answer["agent_id"]
        self.token: str = answer["agent_token"]
        client.headers[AUTHORIZATION_HEADER] = f"Bearer {self.token}"
        self.admin = admin
        self.id: int = admin.get(f"/api/managed-machines/agents/{self.agent_id}").json()["id"]

    # --- requests of an agent ---------------------------------------------------------------------------------------

    def heartbeat(self, **more: Any) -> Any:
        body = {
            "agent_id": self.agent_id,
            "hostname": "far",
            "agent_version": "1.0",
            "engine_versions": [{"major": 1, "version": "1.4.0", "path": "/usr/bin/borg"}],
            "capabilities": EVERYTHING,
            "running_job_ids": [],
            **more,
        }
        return self.client.post("/api/agents/heartbeat", json=body)

    def poll(self, **query: Any) -> list[dict[str, Any]]:
        answer = self.client.get("/api/agents/jobs/poll", params=query)
        assert answer.status_code == 200, answer.text
        jobs: list[dict[str, Any]] = answer.json()["jobs"]
        return jobs

    def post(self, job: int, what: str, body: Any = None) -> Any:
        return self.client.post(f"/api/agents/jobs/{job}/{what}", json=body)

    def job(self, job: int) -> Any:
        return self.client.get(f"/api/agents/jobs/{job}")

    def claim(self, job: int) -> Any:
        return self.post(job, "claim")

    def start(self, job: int) -> Any:
        return self.post(job, "start", {"started_at": now()})

    def begin(self, job: int) -> None:
        """Claim and start."""
        assert self.claim(job).status_code == 200
        assert self.start(job).json()["status"] == "running"

    def log(self, job: int, *lines: tuple[int, str]) -> Any:
        entries = [
            {"sequence": number, "stream": "stderr", "message": text, "created_at": now()} for number, text in lines
        ]
        return self.post(job, "logs", {"entries": entries})

    def complete(self, job: int, **result: Any) -> Any:
        return self.post(job, "complete", {"completed_at": now(), "result": {"return_code": 0, **result}})

    def fail(self, job: int, message: str = "it broke", code: int = 2, **more: Any) -> Any:
        body = {"completed_at": now(), "error_message": message, "return_code": code, **more}
        return self.post(job, "fail", body)

    def canceled(self, job: int) -> Any:
        return self.post(job, "canceled", {"completed_at": now()})

    def finish_all(self, **result: Any) -> list[int]:
        """Complete all waiting jobs successfully and return their ids."""
        done = []
        while jobs := self.poll(limit=10):
            for job in jobs:
                self.begin(job["id"])
                assert self.complete(job["id"], **result).status_code == 200
                done.append(job["id"])
        return done


class Machines:
    """Creates agents and their repositories on a running service."""

    def __init__(self, running: Running) -> None:
        self.running = running
        self.admin = running.admin

    def token(self, **more: Any) -> dict[str, Any]:
        body = {"name": "a token", "expires_in_minutes": 60, **more}
        answer = self.admin.post("/api/managed-machines/enrollment-tokens", json=body)
        assert answer.status_code == 201, answer.text
        created: dict[str, Any] = answer.json()
        return created

    def registration(self, token: str, **more: Any) -> dict[str, Any]:
        return {
            "enrollment_token": token,
            "name": self.running.new_name("machine"),
            "hostname": "far",
            "os": "linux",
            "arch": "x86_64",
            "agent_version": "1.0",
            "engine_versions": [{"major": 1, "version": "1.4.0", "path": "/usr/bin/borg"}],
            "capabilities": EVERYTHING,
            **more,
        }

    def register(self, token: str, **more: Any) -> Any:
        return self.running.anonymous().post("/api/agents/register", json=self.registration(token, **more))

    def agent(self, *, online: bool = True, **more: Any) -> Agent:
        answer = self.register(self.token()["token"], **more)
        assert answer.status_code == 200, answer.text
        agent = Agent(self.running.anonymous(), answer.json(), self.admin)
        if online:
            capabilities = {"capabilities": more["capabilities"]} if "capabilities" in more else {}
            assert agent.heartbeat(**capabilities).status_code == 200
        return agent

    def repository(self, agent: Agent, *, ready: bool = True, **more: Any) -> dict[str, Any]:
        body = {
            "name": self.running.new_name("far-repository"),
            "path": f"/far/{self.running.new_name('repository')}",
            "execution_target": "agent",
            "agent_machine_id": agent.id,
            "encryption": "repokey-blake2",
            "passphrase": PASSPHRASE,
            "source_paths": ["/etc", "/home"],
            "exclude_patterns": ["*.tmp"],
            "index_mode": "off",
            **more,
        }
        answer = self.admin.post("/api/repositories/", json={k: v for k, v in body.items() if v is not None})
        assert answer.status_code == 201, answer.text
        created: dict[str, Any] = answer.json()
        if ready:
            agent.begin(created["setup_operation_id"])
            assert agent.complete(created["setup_operation_id"]).json()["status"] == "completed"
            created = self.admin.get(f"/api/repositories/{created['id']}").json()
            assert created["setup_state"] == "ready"
        return created

    def backup(self, repository: dict[str, Any], **more: Any) -> int:
        body = {"repository_id": repository["id"], **more}
        answer = self.admin.post(
            f"/api/managed-machines/agents/{repository['agent_machine_id']}/backup-jobs", json=body
        )
        assert answer.status_code == 200, answer.text
        job: int = answer.json()["job_id"]
        return job

    def job(self, job: int) -> dict[str, Any]:
        answer = self.admin.get(f"/api/managed-machines/agent-jobs/{job}")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    @contextmanager
    def running_backup(self, **more: Any) -> Iterator[tuple[Agent, int]]:
        """A backup that an agent has started."""
        agent = self.agent()
        job = self.backup(self.repository(agent, **more))
        agent.begin(job)
        yield agent, job
