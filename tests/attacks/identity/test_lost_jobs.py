"""A job counts as lost only if its agent, while online, has omitted it for long and no process has news of it."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from backup_protocol import Block
from holdfast.agents import lost_jobs
from holdfast.agents.lost_jobs import MissingJobs, end_lost
from holdfast.agents.models import AgentJob
from holdfast.kit import clock
from holdfast.operations import queue
from holdfast.operations.job_work import JobWork, reported
from holdfast.operations.kinds import Registry
from holdfast.operations.status import Status
from tests.support.stores import a_store
from tests.unit.operations.kernel import AGENT, BACKUP, add_agent, enqueue, status_of

THRESHOLD = 10.0
WORK = JobWork("backup.create", lambda _session, _operation: Block(), lambda _session, _operation, told: reported(told))
REPEATABLE = Registry.of([replace(BACKUP, agent=replace(WORK, may_repeat=True))])


def test_the_time_during_which_an_agent_was_silent_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that sleeps overnight, and whose first heartbeats precede the rediscovery of its jobs, has lost
    nothing.
    """
    now = [0.0]
    monkeypatch.setattr(lost_jobs.time, "monotonic", lambda: now[0])
    missing_jobs = MissingJobs(THRESHOLD)
    lost = []

    for now[0] in (0.0, 1000.0, 1005.0, 1009.0, 1011.0):
        missing_jobs.heartbeat({7}, ())
        lost.append(missing_jobs.lost())

    assert lost == [[], [], [], [], [7]]


@pytest.mark.parametrize(("seconds_ago", "status"), [(1, Status.RUNNING), (60, Status.PENDING)])
def test_a_job_that_another_process_has_recent_news_of_is_not_ended(
    tmp_path: Path, seconds_ago: int, status: Status
) -> None:
    with a_store("sqlite", tmp_path) as database:
        add_agent(database)
        job = enqueue(database, BACKUP, 1, executor="agent")
        long_ago = clock.now() - timedelta(hours=1)
        with database.writing() as session:
            assert queue.claim_one(session, job, "far", None).may_start
            news_at = clock.now() - timedelta(seconds=seconds_ago)
            values = {"job_kind": "backup", "payload": {}, "created_at": long_ago, "updated_at": news_at}
            session.add(AgentJob(operation_id=job, agent_machine_id=AGENT, claimed_at=long_ago, **values))

        with database.writing() as session:
            end_lost(session, REPEATABLE, job, THRESHOLD)

        assert status_of(database, job) is status
