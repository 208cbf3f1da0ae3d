"""What a claim takes, in which order, and what the store itself refuses."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from sqlalchemy import insert, text
from sqlalchemy.exc import IntegrityError

from holdfast.kit import clock
from holdfast.operations import queue, transitions, waiting_reasons
from holdfast.operations.lanes import QueuedReason
from holdfast.operations.locks import Access, Sharing
from holdfast.operations.models import Operation
from holdfast.operations.queue import Origin
from holdfast.operations.status import LockMode, Status, Trigger
from holdfast.storage.session import Database
from tests.unit.operations import kernel
from tests.unit.operations.kernel import BACKUP, CHECK, INDEX, RESTORE, SCRIPT, claim, enqueue, read, status_of


def reasons(database: Database) -> dict[int, str | None]:
    with database.reading() as session:
        _, judged = waiting_reasons.verdicts(session, clock.now(), everyone=True)
    return {number: verdict.reason for number, verdict in judged.items()}


def many(count: int, **values: Any) -> list[dict[str, Any]]:
    """Rows of waiting operations, older than whatever is enqueued afterwards."""
    row = {
        "kind": "index",
        "category": "index",
        "status": "pending",
        "trigger": "manual",
        "priority": 0,
        "queue_rank": 1.0,
        "run_id": "run",
        "executor": "runner",
        "created_at": clock.now(),
        "params": {},
        "attempt": 1,
        "log_base_line": 0,
        **values,
    }
    return [{**row, "uuid": f"{number:032d}"} for number in range(count)]


# --- what a claim takes -----------------------------------------------------------------------------------------------


def test_a_claim_takes_only_operations_that_may_start(database: Database) -> None:
    first = enqueue(database, BACKUP, 1)
    waiting = enqueue(database, CHECK, 1)
    other = enqueue(database, BACKUP, 2)

    assert claim(database, "me") == [first, other]
    taken = read(database, first)
    assert (taken.status, taken.runner_id, taken.spool) == ("running", "me", f"/spool/{first}")
    assert taken.started_at is not None
    assert taken.log_file == f"{taken.started_at:%Y-%m}/{first}.log"
    assert status_of(database, waiting) is Status.PENDING
    assert claim(database) == []


def test_a_claim_takes_no_more_than_its_capacity(database: Database) -> None:
    operations = [enqueue(database, BACKUP, number) for number in range(1, 5)]

    assert [claim(database, capacity=1), claim(database, capacity=2)] == [operations[:1], operations[1:3]]


@pytest.mark.parametrize("executor", ["agent", "inline"])
def test_a_runner_does_not_claim_operations_of_other_executors(database: Database, executor: str) -> None:
    enqueue(database, BACKUP, 1, executor=executor)

    assert claim(database) == []


def test_operations_of_other_executors_keep_their_place_in_the_lane(database: Database) -> None:
    theirs = enqueue(database, BACKUP, 1, executor="agent")
    mine = enqueue(database, BACKUP, 1)

    assert claim(database) == []
    assert reasons(database) == {theirs: None, mine: QueuedReason.REPOSITORY_BUSY}


@pytest.mark.parametrize(
    ("status", "capabilities", "reason"),
    [
        ("offline", ("backup.create",), QueuedReason.AGENT_OFFLINE),
        ("pending", ("backup.create",), QueuedReason.AGENT_OFFLINE),
        ("online", ("repository.check", "backup.create.not"), QueuedReason.AGENT_UNSUPPORTED),
        ("online", ("repository.check", "backup.create"), None),
    ],
)
def test_an_agents_operation_shows_whether_it_waits_for_the_agent(
    database: Database, status: str, capabilities: tuple[str, ...], reason: QueuedReason | None
) -> None:
    kernel.add_agent(database, status, capabilities)
    theirs = enqueue(database, BACKUP, 1, executor="agent")
    mine = enqueue(database, BACKUP, 1)

    # An operation that waits for its agent blocks no other.
    assert reasons(database) == {theirs: reason, mine: None if reason else QueuedReason.REPOSITORY_BUSY}
    assert claim(database) == ([mine] if reason else [])


def test_an_agent_that_claims_its_own_operation_counts_as_online(database: Database) -> None:
    kernel.add_agent(database, "offline")
    first, second = (enqueue(database, BACKUP, 1, executor="agent") for _ in range(2))

    assert claim_one(database, second).behind_id == first
    assert claim_one(database, first).may_start


@pytest.mark.parametrize(
    ("status", "capabilities", "reason"),
    [
        ("offline", ("engine.call",), QueuedReason.AGENT_OFFLINE),
        ("online", ("backup.create",), QueuedReason.AGENT_UNSUPPORTED),
        ("online", ("engine.call",), None),
    ],
)
def test_kinds_without_an_agent_job_run_on_a_runner_if_the_agent_supports_engine_calls(
    database: Database, status: str, capabilities: tuple[str, ...], reason: QueuedReason | None
) -> None:
    kernel.add_agent(database, status, capabilities)
    with database.writing() as session:
        kind, origin = replace(BACKUP, agent=None), Origin(Trigger.MANUAL)
        mine = queue.enqueue(session, kind, {}, origin, subject=kernel.subject(1, "agent")).id

    assert read(database, mine).executor == "runner"
    assert reasons(database) == {mine: reason}
    assert claim(database) == ([] if reason else [mine])


def test_the_oldest_of_the_same_priority_comes_first(database: Database) -> None:
    operations = [enqueue(database, SCRIPT, None) for _ in range(3)]

    assert claim(database, capacity=3) == operations


def test_manual_operations_start_before_scheduled_ones_and_those_before_followups(database: Database) -> None:
    triggers = (Trigger.RECONCILE, Trigger.FOLLOWUP, Trigger.SCHEDULE, Trigger.MANUAL)
    operations = [enqueue(database, SCRIPT, None, trigger) for trigger in triggers]

    assert claim(database) == operations[::-1]


@pytest.mark.parametrize(("minutes", "first"), [(9, "person"), (11, "followup")])
def test_a_followup_starts_before_a_manual_operation_once_it_has_waited_long_enough(
    database: Database, minutes: int, first: str
) -> None:
    with time_machine.travel(clock.now() - timedelta(minutes=minutes)):
        followup = enqueue(database, SCRIPT, None, Trigger.FOLLOWUP)
    person = enqueue(database, SCRIPT, None)

    assert claim(database, capacity=1) == [{"person": person, "followup": followup}[first]]


def test_limits_are_enforced_and_changes_take_effect_immediately(database: Database) -> None:
    operations = [enqueue(database, BACKUP, number) for number in range(1, 7)]
    kernel.change_limits(database, max_running_backups=2)
    assert claim(database) == operations[:2]

    kernel.change_limits(database, max_running_backups=3, max_running_total=3)
    assert claim(database) == operations[2:3]
    assert reasons(database) == dict.fromkeys(operations[3:], QueuedReason.LIMIT_REACHED)


def test_paused_followups_wait_until_work_is_resumed(database: Database) -> None:
    followup = enqueue(database, INDEX, 1, Trigger.FOLLOWUP)
    kernel.pause(database)
    assert claim(database) == []
    assert reasons(database) == {followup: QueuedReason.PAUSED}

    kernel.pause(database, paused=False)
    assert claim(database) == [followup]


# --- a long queue -----------------------------------------------------------------------------------------------------

LONG = 1500


@pytest.mark.parametrize(
    ("values", "obstacle"),
    [
        pytest.param({"trigger": "followup"}, "pause", id="paused"),
        pytest.param({"limit_group": "index"}, "limit", id="at a limit"),
        pytest.param({"executor": "agent"}, None, id="of agents"),
        pytest.param({"lock_key": "repository:1", "lock_mode": "exclusive"}, "reader", id="behind a reader"),
        pytest.param({"depends_on_id": 1}, "reader", id="behind a dependency"),
        pytest.param({"available_at": clock.now() + timedelta(hours=1)}, None, id="backing off"),
    ],
)
def test_a_long_queue_of_operations_that_cannot_start_blocks_no_other(
    database: Database, values: dict[str, Any], obstacle: str | None
) -> None:
    if obstacle == "pause":
        kernel.pause(database)
    if obstacle == "limit":
        kernel.change_limits(database, max_running_index=1)
        kernel.started(database, INDEX, 9)
    if obstacle == "reader":
        kernel.started(database, RESTORE, 1)
    with database.writing() as session:
        session.execute(insert(Operation), many(LONG, **values))
    newcomer = enqueue(database, BACKUP, 2)

    assert claim(database) == [newcomer]


def test_every_operation_in_a_long_queue_has_a_waiting_reason(database: Database) -> None:
    holder = kernel.started(database, BACKUP, 1)
    with database.writing() as session:
        session.execute(insert(Operation), many(LONG, lock_key="repository:1", lock_mode="exclusive"))
    last = enqueue(database, BACKUP, 1)

    assert len(reasons(database)) == LONG + 1
    with database.reading() as session:
        _, judged = waiting_reasons.verdicts(session, clock.now(), everyone=True)
    assert (judged[last].reason, judged[last].behind_id) == (QueuedReason.REPOSITORY_BUSY, holder)


# --- one given operation ----------------------------------------------------------------------------------------------


def claim_one(database: Database, operation_id: int) -> Any:
    return kernel.in_transaction(database, queue.claim_one, operation_id, "me", "/spool")


def test_an_inline_call_gets_a_free_lane_immediately(database: Database) -> None:
    call = enqueue(database, INDEX, 1, executor="inline")

    assert claim_one(database, call).may_start
    assert (read(database, call).status, read(database, call).runner_id) == ("running", "me")


def test_a_busy_lane_names_its_holder_to_an_inline_call(database: Database) -> None:
    holder = kernel.started(database, BACKUP, 1)
    call = enqueue(database, INDEX, 1, executor="inline")

    verdict = claim_one(database, call)
    assert (verdict.reason, verdict.behind_id) == (QueuedReason.REPOSITORY_BUSY, holder)
    assert status_of(database, call) is Status.PENDING


def test_an_inline_call_does_not_overtake_a_waiting_writer(database: Database) -> None:
    kernel.started(database, RESTORE, 1)
    writer = enqueue(database, BACKUP, 1)
    call = enqueue(database, INDEX, 1, executor="inline")

    assert claim_one(database, call).behind_id == writer


def test_an_inline_call_wakes_only_threads_that_wait_for_its_lane(database: Database) -> None:
    heard = (database.wake.number, database.operations.number, database.work.number)

    call = enqueue(database, INDEX, 1, executor="inline")
    claim_one(database, call)

    assert (database.wake.number, database.operations.number, database.work.number) == heard
    kernel.in_transaction(database, transitions.remove_finished_inline, call)
    assert (database.wake.number, database.operations.number) == heard[:2], "nobody hears of it"
    assert database.work.number > heard[2], "the lane is free"
    assert kernel.told(database, call) == []


def test_a_cancelled_inline_call_does_not_start(database: Database) -> None:
    call = enqueue(database, INDEX, 1, executor="inline")
    kernel.cancel(database, call)

    assert not claim_one(database, call).may_start
    assert status_of(database, call) is Status.CANCELLED


# --- the store itself -------------------------------------------------------------------------------------------------


def set_running(database: Database, operation_id: int) -> None:
    with database.writing() as session:
        session.execute(text("UPDATE operations SET status = 'running' WHERE id = :id"), {"id": operation_id})


def test_the_store_itself_refuses_a_second_writer_on_a_lane(database: Database) -> None:
    kernel.started(database, BACKUP, 1)
    second = enqueue(database, CHECK, 1)

    with pytest.raises(IntegrityError):
        set_running(database, second)
    assert status_of(database, second) is Status.PENDING


def test_the_store_itself_allows_more_readers_and_writers_on_other_lanes(database: Database) -> None:
    kernel.started(database, RESTORE, 1)
    kernel.started(database, BACKUP, 2)
    others = [enqueue(database, RESTORE, 1), enqueue(database, BACKUP, 3), enqueue(database, SCRIPT, None)]
    for operation_id in others:
        set_running(database, operation_id)

    assert [status_of(database, number) for number in others] == [Status.RUNNING] * 3


def test_the_store_itself_refuses_to_insert_a_second_running_writer(database: Database) -> None:
    kernel.started(database, BACKUP, 1)
    lane = queue.lane_of(1)

    with pytest.raises(IntegrityError), database.writing() as session:
        session.execute(insert(Operation), many(1, status="running", lock_key=lane, lock_mode=LockMode.EXCLUSIVE))


def test_the_statement_that_starts_an_operation_refuses_a_start_that_breaks_the_rules(database: Database) -> None:
    kernel.started(database, RESTORE, 1)
    enqueue(database, BACKUP, 1)
    with database.reading() as session:
        waiting, _ = waiting_reasons.verdicts(session, clock.now(), everyone=True)

    assert not kernel.in_transaction(database, queue.start, waiting[0], "me", "/spool")


# --- engines that support several writers -----------------------------------------------------------------------------


def test_operations_that_only_add_share_the_lane_if_the_engine_supports_several_writers(database: Database) -> None:
    adding = replace(BACKUP, access=Access.ADD)
    shared = replace(kernel.subject(1), sharing=Sharing.WRITERS)
    with database.writing() as session:
        wanted = (adding, adding, RESTORE, CHECK, adding)
        first, second, reader, check, late = (
            queue.enqueue(session, kind, {}, Origin(Trigger.MANUAL), subject=shared).id for kind in wanted
        )

    assert claim(database) == [first, second, reader]
    assert reasons(database) == {check: QueuedReason.REPOSITORY_BUSY, late: QueuedReason.REPOSITORY_BUSY}


def test_operations_that_only_add_hold_the_lane_alone_if_the_engine_supports_one_writer(database: Database) -> None:
    adding = replace(BACKUP, access=Access.ADD)
    first, second = enqueue(database, adding, 1), enqueue(database, adding, 1)

    assert claim(database) == [first]
    assert reasons(database) == {second: QueuedReason.REPOSITORY_BUSY}


def test_reading_the_repositorys_files_excludes_writers_but_shares_the_lane_with_readers(
    database: Database,
) -> None:
    adding, copying = replace(BACKUP, access=Access.ADD), replace(RESTORE, access=Access.READ_FILES)
    shared = replace(kernel.subject(1), sharing=Sharing.WRITERS)
    with database.writing() as session:
        writer, copy = (
            queue.enqueue(session, kind, {}, Origin(Trigger.MANUAL), subject=shared).id for kind in (adding, copying)
        )
    reader, other_copy = enqueue(database, RESTORE, 2), enqueue(database, copying, 2)

    assert claim(database) == [writer, reader, other_copy]
    assert reasons(database) == {copy: QueuedReason.REPOSITORY_BUSY}


def test_even_readers_hold_the_lane_alone_if_only_one_run_at_a_time_is_possible(database: Database) -> None:
    alone = replace(kernel.subject(1), sharing=Sharing.NOTHING)
    with database.writing() as session:
        wanted = (RESTORE, RESTORE, replace(BACKUP, access=Access.ADD))
        first, second, writer = (
            queue.enqueue(session, kind, {}, Origin(Trigger.MANUAL), subject=alone).id for kind in wanted
        )
        asked = queue.enqueue_inline(session, RESTORE, "me", queue.lane_of(1), alone)
        assert asked.lock_mode == LockMode.EXCLUSIVE

    assert claim(database) == [first]
    assert set(reasons(database)) >= {second, writer}
