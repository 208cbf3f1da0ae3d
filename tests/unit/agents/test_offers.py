"""Which jobs an agent is offered or must stop, and what happens to jobs whose agent is gone."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from sqlalchemy import delete
from sqlalchemy.orm import Session

from backup_protocol import Block
from holdfast.access.caller import Caller
from holdfast.access.roles import Role
from holdfast.agents import jobs
from holdfast.agents.enrollment import CROSSING_SECONDS, ended_jobs
from holdfast.agents.models import AgentJob, AgentMachine
from holdfast.kit import clock
from holdfast.operations import queue
from holdfast.operations.job_work import JobReport, JobWork, reported
from holdfast.operations.kinds import Registry
from holdfast.operations.models import Operation
from holdfast.operations.outcome import Outcome
from holdfast.operations.present import Presenter
from holdfast.operations.queue_view import read_queue
from holdfast.operations.status import Status
from holdfast.storage.session import Database
from tests.unit.operations.kernel import AGENT, BACKUP, REGISTRY, SCRIPT, add_agent, enqueue, read, status_of

ADMIN = Caller(1, "admin", Role.ADMIN, None, None, None, must_change_password=False, address=None)


def offered(database: Database) -> list[int]:
    with database.reading() as session:
        return [operation.id for operation in jobs.startable(session, AGENT)]


def no_block(_session: Session, _operation: Operation) -> Block:
    return Block()


def as_reported(_session: Session, _operation: Operation, report: JobReport) -> Outcome:
    return reported(report)


def start(database: Database, job: int) -> None:
    with database.writing() as session:
        assert queue.claim_one(session, job, "far", None).may_start


def test_a_long_queue_for_one_repository_does_not_hide_the_jobs_of_others(database: Database) -> None:
    """An operator of one repository may queue as many backups as they like."""
    add_agent(database)
    start(database, enqueue(database, BACKUP, 1, executor="agent"))
    for _ in range(jobs.CANDIDATES + 1):
        enqueue(database, BACKUP, 1, executor="agent")
    other = enqueue(database, BACKUP, 2, executor="agent")
    script = enqueue(database, SCRIPT, 1, executor="agent")

    assert offered(database) == [other, script]


def test_an_agents_script_waits_for_no_lane_and_holds_none(database: Database) -> None:
    add_agent(database)
    first, second = enqueue(database, SCRIPT, 1, executor="agent"), enqueue(database, SCRIPT, 2, executor="agent")
    start(database, first)

    backup = enqueue(database, BACKUP, 1, executor="agent")
    assert offered(database) == [second, backup]
    with database.reading() as session:
        lanes = read_queue(session, ADMIN, Presenter(REGISTRY, Path())).repositories
    assert {lane.repository_id: lane.lane_holders for lane in lanes if lane.lane_busy} == {}
    assert [lane.repository_id for lane in lanes] == [1, 2]


def test_jobs_of_a_deleted_agent_end(database: Database) -> None:
    """A job queued while its agent was being deleted would otherwise wait, or hold its lane, indefinitely."""
    add_agent(database)
    running, waiting = enqueue(database, BACKUP, 1, executor="agent"), enqueue(database, BACKUP, 1, executor="agent")
    here = enqueue(database, BACKUP, 3)
    start(database, running)
    registry = Registry.of([replace(BACKUP, agent=JobWork("backup.create", no_block, as_reported))])
    assert jobs.end_orphans(database, registry) == 0
    with database.writing() as session:
        session.execute(delete(AgentMachine))

    assert jobs.end_orphans(database, registry) == 2

    for job in (running, waiting):
        assert (status_of(database, job), read(database, job).error_key) == (Status.FAILED, "agents.revoked")
    assert status_of(database, here) is Status.PENDING


def test_an_agent_stops_jobs_that_ended_in_the_store_unless_it_has_just_reported_them(database: Database) -> None:
    add_agent(database)
    now, long_ago = clock.now(), clock.now() - timedelta(seconds=CROSSING_SECONDS + 1)
    reports = {"ended here": (None, now), "just reported": ({}, now), "reported long ago": ({}, long_ago)}
    ids = {}
    for repository, (name, (report, updated_at)) in enumerate(reports.items(), 1):
        ids[name] = enqueue(database, BACKUP, repository, executor="agent")
        with database.writing() as session:
            operation = session.get_one(Operation, ids[name])
            operation.status = Status.FAILED
            session.add(
                AgentJob(
                    operation_id=ids[name],
                    agent_machine_id=AGENT,
                    job_kind="backup",
                    payload={},
                    report=report,
                    created_at=long_ago,
                    updated_at=updated_at,
                )
            )

    found = ended_jobs(database, AGENT, [*ids.values(), 987654])

    assert sorted(found) == sorted((ids["ended here"], ids["reported long ago"]))
