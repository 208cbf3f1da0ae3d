"""Kill the agent, the shim, the engine, the machine or the service: the record ends up matching what happened."""

import json
import os
import signal
from datetime import datetime

import pytest

from tests.support.agent_site import AgentSite
from tests.support.service import wait_until


def kill_shim(site: AgentSite, job: int) -> None:
    for pid in site.agent.shim_pids(job):
        os.kill(pid, signal.SIGKILL)


def kill_engine(site: AgentSite, job: int) -> None:
    os.killpg(site.agent.engine_pid(job), signal.SIGKILL)


def test_a_killed_agent_finds_its_engine_again_after_a_restart(site: AgentSite) -> None:
    job = site.backup("held")
    site.wait_for_said(job, 3)
    site.agent.kill()
    run = site.wait_for_said(job, 6)
    site.agent.start()
    wait_until(
        lambda: sum(run in line for line in site.admin.log_lines(job)) >= 6, pause=0.05, what="lines follow again"
    )

    with site.engine.let_go():
        ended = site.wait_for_end(job)

    assert ended["status"] == "completed"
    assert len(site.engine.starts_of(site.key_of(job))) == 1
    assert site.archives_with(site.key_of(job)) == 1
    site.check_log(job)


def test_a_backup_that_ended_while_the_agent_was_down_is_reported_with_its_real_end(site: AgentSite) -> None:
    job = site.backup("exec")
    site.wait_for_said(job)
    site.agent.kill()
    folder = site.agent.job_folder(job) / "steps" / "1" / "create"
    wait_until(lambda: (folder / "exit.json").exists(), pause=0.05, what="the engine ends")
    engine_ended = json.loads((folder / "exit.json").read_bytes())["finished_at"]

    site.agent.start()
    ended = site.wait_for_end(job)

    last_backup = site.admin.get(f"/api/repositories/{site.repository['id']}").json()["last_backup"]
    for moment in (ended["completed_at"], last_backup):
        assert datetime.fromisoformat(moment).timestamp() == pytest.approx(engine_ended, abs=0.001)

    assert ended["status"] == "completed"
    assert ended["result"]["return_code"] == 0
    assert len(site.engine.starts_of(site.key_of(job))) == 1
    site.check_log(job)


def test_after_a_kill_of_the_shim_the_repository_decides_the_outcome(site: AgentSite) -> None:
    job = site.backup("held")
    site.wait_for_said(job)
    kill_shim(site, job)

    with site.engine.let_go():
        ended = site.wait_for_end(job)

    assert ended["status"] == "completed"
    assert len(site.engine.starts_of(site.key_of(job))) == 1
    assert site.archives_with(site.key_of(job)) == 1
    site.check_log(job)


def test_a_killed_engine_is_restarted_once_and_creates_one_archive(site: AgentSite) -> None:
    job = site.backup("held")
    site.wait_for_said(job)
    kill_engine(site, job)

    with site.engine.let_go():
        ended = site.wait_for_end(job)

    assert ended["status"] == "completed"
    assert len(site.engine.starts_of(site.key_of(job))) == 2
    assert site.archives_with(site.key_of(job)) == 1
    site.check_log(job)


def test_an_engine_killed_after_creating_its_archive_is_not_started_again(site: AgentSite) -> None:
    job = site.backup("made")
    run = site.wait_for_said(job, 3)
    wait_until(lambda: run in site.engine.made(), pause=0.02, what="the archive is made")
    kill_engine(site, job)

    ended = site.wait_for_end(job)

    assert ended["status"] == "completed"
    assert ended["result"]["stats"]["nfiles"] == 20
    assert len(site.engine.starts_of(site.key_of(job))) == 1
    assert site.archives_with(site.key_of(job)) == 1


def test_a_machine_that_went_down_repeats_the_backup_when_it_is_back(site: AgentSite) -> None:
    job = site.backup("held")
    site.wait_for_said(job)
    site.agent.kill()
    kill_shim(site, job)
    kill_engine(site, job)

    site.agent.start()
    with site.engine.let_go():
        ended = site.wait_for_end(job)

    assert ended["status"] == "completed"
    assert len(site.engine.starts_of(site.key_of(job))) == 2
    assert site.archives_with(site.key_of(job)) == 1
    site.check_log(job)


@pytest.mark.campaign
def test_a_backup_continues_without_the_service_and_is_reported_when_it_is_back(site: AgentSite) -> None:
    job = site.backup("exec")
    site.wait_for_said(job)
    key = site.key_of(job)
    site.service.kill()
    wait_until(
        lambda: (site.agent.job_folder(job) / "result.json").exists(), pause=0.05, what="the agent notes the end"
    )
    site.agent.stop()
    site.agent.start()

    site.service.restart()
    ended = site.wait_for_end(job)

    assert ended["status"] == "completed"
    assert len(site.engine.starts_of(key)) == 1
    site.check_log(job)
    wait_until(lambda: not site.agent.job_folder(job).exists(), pause=0.05, what="the agent lets go of the job")


@pytest.mark.campaign
def test_a_cancel_reaches_an_agent_that_was_down(site: AgentSite) -> None:
    job = site.backup("held")
    site.wait_for_said(job)
    site.agent.kill()
    cancelled = site.admin.post(f"/api/operations/{job}/cancel")
    assert cancelled.status_code == 200, cancelled.text
    assert site.admin.operation(job)["status"] == "running", "offline is not failed, nor cancelled"

    site.agent.start()
    ended = site.wait_for_end(job)

    assert ended["status"] == "cancelled"
    assert site.archives_with(site.key_of(job)) == 0
