"""Only jobs that no agent has taken expire, once they are older than the policy allows."""

from datetime import timedelta

import time_machine

from holdfast.agents import jobs
from holdfast.kit import clock
from holdfast.operations.status import Status
from holdfast.storage.session import Database
from tests.unit.operations.kernel import BACKUP, CHECK, add_agent, claim, enqueue, read, status_of


def test_only_agent_jobs_that_have_waited_long_enough_expire(database: Database) -> None:
    add_agent(database)
    with time_machine.travel(clock.now() - timedelta(hours=5)):
        old = enqueue(database, BACKUP, 1, executor="agent")
        behind = enqueue(database, CHECK, 3, depends_on_id=old)
        running = enqueue(database, BACKUP, 2)
        assert claim(database) == [running]
        local = enqueue(database, BACKUP, 2)
    young = enqueue(database, BACKUP, 4, executor="agent")

    assert jobs.expire(database, clock.now() - timedelta(hours=1)) == 1

    assert (status_of(database, old), read(database, old).error_key) == (Status.FAILED, "agents.expired")
    assert status_of(database, behind) is Status.SKIPPED
    assert [status_of(database, number) for number in (running, local, young)] == [
        Status.RUNNING,
        Status.PENDING,
        Status.PENDING,
    ]
