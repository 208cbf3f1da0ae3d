"""An agent that was revoked stayed connected until its long poll timed out."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from backup_protocol import AgentStatus
from holdfast.agents import store
from holdfast.agents.gateway import GATEWAY
from holdfast.storage.session import Database
from tests.attacks.crowd.agent import EnrolledAgent, enrolled
from tests.contract.fields import error_of
from tests.support.in_process import InProcess, started
from tests.support.service import PATIENCE, wait_until


@pytest.fixture
def running(tmp_path: Path) -> Iterator[InProcess]:
    with started(tmp_path / "data") as running:
        yield running


def polled_while(running: InProcess, agent: EnrolledAgent, shut_out: Callable[[], object]) -> tuple[int, str]:
    """The response to a long poll during which the agent is shut out."""
    with ThreadPoolExecutor(1) as other:
        poll = other.submit(running.client.get, "/api/agents/jobs/poll?wait=30", headers=agent.headers)
        wait_until(lambda: agent.id in running.service.parts[GATEWAY].work_cache.waiting(), what="the agent waits")
        shut_out()
        return error_of(poll.result(PATIENCE))


@pytest.mark.parametrize("what", ["revoke", "disable"])
def test_revoking_or_disabling_an_agent_ends_its_open_long_poll_immediately(running: InProcess, what: str) -> None:
    agent = enrolled(running)
    url = f"/api/managed-machines/agents/{agent.agent_id}/{what}"

    status, told = polled_while(running, agent, lambda: running.client.post(url, headers=agent.admin))

    assert status == 403
    assert told.startswith("agents.")


def test_deleting_an_agent_ends_its_open_long_poll_immediately(running: InProcess) -> None:
    agent = enrolled(running)
    url = f"/api/managed-machines/agents/{agent.agent_id}"

    status, _ = polled_while(running, agent, lambda: running.client.delete(url, headers=agent.admin))

    assert status == 401


def test_a_long_poll_also_ends_when_another_process_revokes_the_agent(running: InProcess) -> None:
    agent = enrolled(running)
    elsewhere = Database(running.service.settings.store_url)

    def shut_out() -> None:
        with elsewhere.writing() as session:
            store.set_status(session, store.require(session, agent.agent_id), AgentStatus.REVOKED)
            store.next_generation(session)

    status, _ = polled_while(running, agent, shut_out)
    elsewhere.dispose()

    assert status == 403
