"""An agent that has worked gives back the memory that only work needs."""

from pathlib import Path

import psutil

from tests.support.agent_site import AgentSite
from tests.support.agents import AgentProcess, create_agent_repository
from tests.support.service import wait_until

GIVEN_BACK = 1_000_000


def test_an_agent_that_is_idle_after_a_job_starts_anew_in_the_same_process_and_works_on(
    site: AgentSite, tmp_path: Path
) -> None:
    (tmp_path / "machine").mkdir()
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "file").write_text("content")
    agent = AgentProcess(tmp_path / "machine", site.engine.engine, site.service.url)
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
