"""Unexpected errors: the agent's loops continue, and the jobs they hold are not lost."""

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backup_agent import engines
from backup_agent.agent import Agent
from backup_agent.backoff import Backoff
from backup_agent.client import Client, NotAllowed
from backup_agent.commands import locking
from backup_agent.config import Config
from backup_agent.job_folder import JobFolder
from backup_agent.job_reporter import JobReporter
from backup_agent.places import Places
from backup_agent.problems import AlreadyRunning
from backup_agent.resilient_loop import ResilientLoop
from backup_agent.runtime_api import RuntimeApi
from backup_protocol import Complete, Job, Result
from tests.support.service import wait_until
from tests.unit.agent.in_test_service import Answer, InTestService, in_test_service

WHEN = "2026-11-15T00:00:00+00:00"
LOCK = "from backup_agent.commands.locking import only_agent; from backup_agent.places import find_places\n"
STOPPED = """
import os, signal
from backup_agent.commands.run import stopped_by_signals

class Stoppable:
    def stop(self): pass

with stopped_by_signals(Stoppable()) as received:
    os.kill(os.getpid(), signal.SIGTERM)
print(received)
"""


@pytest.fixture
def service() -> Iterator[InTestService]:
    with in_test_service(lambda _request: Answer(body={"id": 7, "status": "running", "jobs": []})) as running:
        yield running


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path / "config", tmp_path / "state")


@pytest.fixture
def agent(service: InTestService, places: Places) -> Agent:
    return Agent(places, Config(service.url, "agent", "credential"), Client(service.url))


def job(folder: Path, number: int) -> JobFolder:
    made = JobFolder.make(folder, Job(number, "backup", WHEN, {}))
    made.note_claimed()
    made.end(Complete(WHEN, Result(0, "archive")))
    return made


def failing(*_: Any, **__: Any) -> Any:
    raise ValueError("nobody expected this")


def test_a_failing_turn_is_retried_after_increasing_pauses() -> None:
    going_on = ResilientLoop("A loop", Backoff(first=1, most=8, chance=lambda: 1.0))
    assert [going_on.turn(failing) for _ in range(5)] == [1, 2, 4, 8, 8]
    assert going_on.turn(lambda: 0.25) == 0.25
    assert going_on.turn(failing) == 1


def test_a_failed_round_does_not_stop_the_agent(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds: list[str] = []

    def fail_once(**_: Any) -> float:
        rounds.append("round")
        if len(rounds) == 1:
            raise KeyError("nobody expected this")
        agent.stop()
        return 0.0

    monkeypatch.setattr(agent, "_round", fail_once)
    assert agent.run() is False
    assert len(rounds) == 2


def test_a_job_that_cannot_be_reported_does_not_hold_up_the_others(service: InTestService, tmp_path: Path) -> None:
    reporter = JobReporter(RuntimeApi(Client(service.url)))
    broken, good = job(tmp_path, 1), job(tmp_path, 2)
    (broken.folder / "result.json").write_text('{"report": "nonsense"}')
    reporter.add(broken)
    reporter.add(good)

    reporter.turn()

    assert not good.folder.exists()
    assert broken.folder.exists()


def test_reporting_continues_after_a_failed_turn(
    service: InTestService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reporter = JobReporter(RuntimeApi(Client(service.url)), turn_seconds=0.01)
    turn, turns = reporter.turn, []

    def fail_once() -> None:
        turns.append("turn")
        if len(turns) == 1:
            raise RuntimeError("nobody expected this")
        turn()

    monkeypatch.setattr(reporter, "turn", fail_once)
    reported = job(tmp_path, 1)
    reporter.add(reported)
    reporter.start()
    try:
        wait_until(lambda: not reported.folder.exists(), what="the job is reported after all")
    finally:
        reporter.stop(60)


def test_a_job_that_is_added_after_it_was_reported_is_dropped(service: InTestService, tmp_path: Path) -> None:
    reporter = JobReporter(RuntimeApi(Client(service.url)))
    reported = job(tmp_path, 1)
    reporter.add(reported)
    reporter.turn()

    reporter.add(reported)

    assert not reporter.is_busy


def test_a_job_whose_thread_cannot_start_takes_no_slot(
    agent: Agent, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Threadless:
        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(agent, "_worker", lambda _job: Threadless())
    offered = Job(3, "backup", WHEN, {})
    with pytest.raises(RuntimeError):
        agent._accept(offered)

    assert agent._free() == 1
    assert not agent._jobs


def test_an_unreadable_job_folder_does_not_stop_the_agent(tmp_path: Path) -> None:
    job(tmp_path, 1)
    (job(tmp_path, 2).folder / "sent.json").write_text('{"log": "nonsense"}')
    assert [each.job_id for each in JobFolder.all_below(tmp_path)] == [1]


def test_an_engine_that_did_not_report_its_version_is_queried_again(
    places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "borg"
    program.write_text(f"#!/bin/sh\n[ -e {tmp_path}/asked ] && echo borg 1.4.0; touch {tmp_path}/asked\n")
    program.chmod(0o755)
    monkeypatch.setattr(engines, "ASK_AGAIN_SECONDS", 0.0)
    found = engines.Engines(places, {1: str(program), 2: str(program)})

    assert found.versions() == ()
    assert [version.version for version in found.versions()] == ["1.4.0"]


def test_a_refused_agent_retries_soon_at_first_and_then_less_often(agent: Agent) -> None:
    pauses = [agent._refused_by_service(NotAllowed(403, "agents.revoked", "Revoked.")) for _ in range(12)]
    assert pauses[0] <= 5.0
    assert pauses[-1] >= 150.0


def test_an_agent_that_restarts_itself_never_releases_its_lock(places: Places) -> None:
    named = {"BACKUP_AGENT_CONFIG_DIR": str(places.config), "BACKUP_AGENT_STATE_DIR": str(places.state)}
    program = [sys.executable, "-c", f"{LOCK}with only_agent(find_places()): print('held')"]
    with locking.only_agent(places) as lock:
        environment = {**locking.hand_on(lock), **named}
        anew = subprocess.run(program, env=environment, pass_fds=[lock], capture_output=True, text=True, check=True)
        assert anew.stdout == "held\n"
        other = subprocess.run(program, env={**os.environ, **named}, capture_output=True, text=True, check=False)
        assert AlreadyRunning.__name__ in other.stderr


def test_checking_whether_an_agent_runs_does_not_prevent_one_from_starting(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    places.state.mkdir()
    asking = os.open(places.lock_file, os.O_RDWR | os.O_CREAT)
    fcntl.flock(asking, fcntl.LOCK_SH)
    monkeypatch.setattr(locking.time, "sleep", lambda _seconds: fcntl.flock(asking, fcntl.LOCK_UN))
    with locking.only_agent(places):
        assert locking.is_running(places)
    os.close(asking)


def test_a_signal_during_the_agents_own_shutdown_is_recorded() -> None:
    ran = subprocess.run([sys.executable, "-c", STOPPED], capture_output=True, text=True, check=True)
    assert ran.stdout == "[15]\n"
