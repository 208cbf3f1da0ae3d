"""After a job, an agent frees the memory that only jobs need."""

import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.agent_site import AgentSite
from tests.support.agents import AgentProcess, create_agent_repository
from tests.support.engines import ENGINE_2
from tests.support.service import Client, wait_until
from tests.support.warm_engines import warm_program

GIVEN_BACK = 1_000_000
ROUNDS = 12


def test_an_idle_agent_restarts_in_the_same_process_after_a_job_and_continues_to_work(
    site: AgentSite, tmp_path: Path
) -> None:
    (tmp_path / "machine").mkdir()
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "file").write_text("content")
    agent = AgentProcess(tmp_path / "machine", warm_program(site.engine.engine), site.service.url)
    try:
        agent.register(site.admin, "renewed")
        config = agent.config / "config.toml"
        config.write_text(config.read_text().replace("renew_seconds = 60.0", "renew_seconds = 5.0"))
        agent.start()
        assert agent.process is not None
        process = psutil.Process(agent.process.pid)
        repository = create_agent_repository(site.admin, agent, tmp_path / "renewed", [tmp_path / "source"])
        busy = process.memory_info().rss

        wait_until(lambda: process.memory_info().rss < busy - GIVEN_BACK, what="memory is given back")
        assert agent.is_running()

        ended = site.admin.wait_for_end(site.admin.start_backup(repository))
        assert ended["status"] == "completed"
    finally:
        agent.end_everything()


@pytest.mark.campaign
@pytest.mark.parametrize(
    "major", [1, pytest.param(2, marks=pytest.mark.skipif(ENGINE_2 is None, reason="no engine 2"))]
)
def test_an_agent_that_restarts_repeatedly_loses_no_job_and_no_call(
    site: AgentSite, tmp_path: Path, major: int
) -> None:
    (tmp_path / "machine").mkdir()
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "file").write_text("content")
    more = {"BACKUP_AGENT_BORG2": str(ENGINE_2)} if ENGINE_2 else {}
    agent = AgentProcess(tmp_path / "machine", site.engine.engine, site.service.url, more)
    admin = site.admin
    try:
        agent.register(admin, f"renewed-{major}")
        config = agent.config / "config.toml"
        config.write_text(config.read_text().replace("renew_seconds = 60.0", "renew_seconds = 1.0"))
        agent.start()
        encryption = {1: "repokey-blake2", 2: "aes256-ocb"}[major]
        repository = create_agent_repository(
            admin,
            agent,
            tmp_path / f"renewed-again-{major}",
            [tmp_path / "source"],
            engine_version=major,
            encryption=encryption,
            index_mode="archives",
        )
        live = f"/api/repositories/{repository['id']}/archives/live"
        for number in range(1, ROUNDS + 1):
            ended = admin.wait_for_end(admin.start_backup(repository))
            assert ended["status"] == "completed", (ended, agent.own_log()[-3000:])
            answer = wait_until(lambda: asked(admin, live), what="the repository is free and the agent answers")
            assert answer.status_code == 200, (answer.text, agent.own_log()[-3000:])
            assert len(answer.json()["archives"]) == number
            agent.run("status")  # which holds the lock for an instant
            assert agent.is_running(), agent.own_log()[-3000:]
            time.sleep(number % 6 * 0.6)  # the next job arrives before, during and after a restart
        assert agent.own_log().count("The agent is running") > 1
    finally:
        agent.end_everything()


def asked(admin: Client, path: str) -> Any:
    """The response, or None while the repository is busy with the follow-ups of a backup."""
    answer = admin.get(path)
    return None if answer.status_code == 423 else answer
