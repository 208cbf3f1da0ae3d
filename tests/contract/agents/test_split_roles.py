"""Several processes with one store: each sees what the others have stored."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.agents.agent import Machines
from tests.support.running import Running, Services
from tests.support.service import PATIENCE, Client, ServiceProcess, wait_until


@pytest.fixture
def first_and_second(services: Services) -> Iterator[tuple[Machines, ServiceProcess]]:
    """The shared service on PostgreSQL, and another process that only serves requests."""
    shared: Running = services.get("postgresql")
    second = ServiceProcess(
        shared.process.data_dir, shared.process.environment, database_url=shared.process.database_url, role="api"
    )
    second.start()
    yield Machines(shared), second
    second.stop()


def test_an_agent_may_connect_to_any_process(first_and_second: tuple[Machines, ServiceProcess]) -> None:
    machines, second = first_and_second
    agent = machines.agent()
    repository = machines.repository(agent)
    with second.client() as elsewhere:
        elsewhere.headers.update(agent.client.headers)
        here, agent.client = agent.client, elsewhere
        assert agent.poll() == []

        # A job queued by one process wakes an agent that waits at the other.
        found: list[list[dict[str, Any]]] = []
        waiter = threading.Thread(target=lambda: found.append(agent.poll(wait=25)))
        waiter.start()
        job = machines.backup(repository)
        waiter.join(PATIENCE)
        assert [[offered["id"] for offered in jobs] for jobs in found] == [[job]]

        # Claimed at one process, started at the other, logged to both: still one record.
        assert agent.claim(job).status_code == 200
        agent.client = here
        assert agent.start(job).json()["status"] == "running"
        assert agent.log(job, (1, "one"), (2, "two")).json()["accepted"] == 2
        agent.client = elsewhere
        assert agent.log(job, (2, "two"), (3, "three")).json() == {"accepted": 1, "duplicate": 1}
        assert agent.heartbeat(running_job_ids=[job]).json()["cancel_job_ids"] == []
        assert machines.admin.log_lines(job) == ["one", "two", "three"]

        # Revoked at one process, refused by the other within a second.
        assert _poll(elsewhere) == 200
        machines.admin.post(f"/api/managed-machines/agents/{agent.id}/revoke")
        wait_until(lambda: _poll(elsewhere) == 403, pause=0.1, what="the other process refuses the agent")
        assert agent.complete(job).status_code == 403


def _poll(client: Client) -> int:
    return client.get("/api/agents/jobs/poll").status_code
