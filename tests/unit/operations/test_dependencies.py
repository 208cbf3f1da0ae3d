"""Operations that wait for others, and what follows when an operation ends."""

import threading

import pytest
from sqlalchemy.orm import Session

from holdfast.kit import clock
from holdfast.operations import pages, queue, transitions, waiting_reasons
from holdfast.operations.kinds import Effect, Listener, Registry
from holdfast.operations.lanes import QueuedReason
from holdfast.operations.models import Operation
from holdfast.operations.outcome import Outcome
from holdfast.operations.queue import Origin
from holdfast.operations.status import SUCCEEDED, TRANSITIONS, Needs, Status, Trigger
from holdfast.storage.session import Database
from tests.support.service import PATIENCE
from tests.unit.operations import kernel
from tests.unit.operations.kernel import (
    BACKUP,
    INDEX,
    KINDS,
    SCRIPT,
    cancel,
    claim,
    enqueue,
    finish,
    read,
    started,
    status_of,
)
from tests.unit.operations.test_transitions import overlapped

ENDS = sorted(TRANSITIONS[Status.RUNNING] - {Status.PENDING})
UNSUCCESSFUL = [status for status in ENDS if status not in SUCCEEDED]


def a_chain(database: Database, first: int, length: int) -> list[int]:
    chain = [first]
    for _ in range(length):
        chain.append(enqueue(database, SCRIPT, None, Trigger.FOLLOWUP, depends_on_id=chain[-1]))
    return chain[1:]


def test_a_dependant_waits_for_the_success_of_its_dependency(database: Database) -> None:
    first = started(database)
    [second] = a_chain(database, first, 1)
    assert claim(database) == []
    with database.reading() as session:
        _, judged = waiting_reasons.verdicts(session, clock.now(), everyone=True)
    assert (judged[second].reason, judged[second].behind_id) == (QueuedReason.DEPENDENCY, first)

    finish(database, first, Status.COMPLETED_WITH_WARNINGS)
    assert claim(database) == [second]


@pytest.mark.parametrize("end", UNSUCCESSFUL)
def test_direct_and_indirect_dependants_of_a_failure_are_skipped(database: Database, end: Status) -> None:
    first = started(database)
    chain = a_chain(database, first, 3)
    beside = a_chain(database, first, 1)
    unconcerned = enqueue(database, SCRIPT, None)

    finish(database, first, end)
    assert [status_of(database, number) for number in chain + beside] == [Status.SKIPPED] * 4
    assert {read(database, number).skip_reason for number in chain + beside} == {"dependency_failed"}
    assert status_of(database, unconcerned) is Status.PENDING


def test_cancelling_a_link_of_a_chain_skips_the_links_behind_it_and_none_before(database: Database) -> None:
    first = started(database)
    chain = a_chain(database, first, 3)

    cancel(database, chain[1])
    assert [status_of(database, number) for number in (first, *chain)] == ["running", "pending", "cancelled", "skipped"]


def test_a_failure_before_the_start_skips_dependants_too(database: Database) -> None:
    first = enqueue(database)
    [second] = a_chain(database, first, 1)
    with database.writing() as session:
        assert transitions.fail_pending(session, first, "agents.revoked", "The agent is gone.")

    assert read(database, first).error_key == "agents.revoked"
    assert status_of(database, second) is Status.SKIPPED


def test_another_attempt_skips_no_dependants(database: Database) -> None:
    first = started(database)
    [second] = a_chain(database, first, 1)
    with database.writing() as session:
        transitions.requeue_for_next_attempt(session, read(database, first), log_lines=0, delay_seconds=0)

    assert status_of(database, second) is Status.PENDING


@pytest.mark.parametrize("end", UNSUCCESSFUL)
def test_a_new_dependant_of_a_failure_is_skipped_immediately(database: Database, end: Status) -> None:
    first = started(database)
    finish(database, first, end)

    [second] = a_chain(database, first, 1)
    assert status_of(database, second) is Status.SKIPPED
    assert claim(database) == []


def test_a_new_dependant_of_a_success_starts(database: Database) -> None:
    first = started(database)
    finish(database, first, Status.COMPLETED)

    assert claim(database) == []
    [second] = a_chain(database, first, 1)
    assert claim(database) == [second]


def depending_on(first: int) -> Origin:
    return Origin(Trigger.FOLLOWUP, depends_on_id=first)


def test_a_dependant_enqueued_while_its_dependency_fails_is_skipped(database: Database) -> None:
    known = read(database, started(database))

    _, newcomer = overlapped(
        database,
        lambda session: transitions.finish(session, kernel.REGISTRY, known, Outcome(Status.FAILED)),
        lambda session: queue.enqueue(session, SCRIPT, {}, depending_on(known.id)).id,
    )
    assert claim(database) == []
    assert status_of(database, newcomer) is Status.SKIPPED


def test_a_failure_while_a_dependant_is_being_enqueued_skips_it(database: Database) -> None:
    known = read(database, started(database))

    newcomer, _ = overlapped(
        database,
        lambda session: queue.enqueue(session, SCRIPT, {}, depending_on(known.id)).id,
        lambda session: transitions.finish(session, kernel.REGISTRY, known, Outcome(Status.FAILED)),
    )
    assert claim(database) == []
    assert status_of(database, newcomer) is Status.SKIPPED


# --- effects ----------------------------------------------------------------------------------------------------------


def following(session: Session, operation: Operation) -> None:
    """A listener that queues a follow-up, as the index does."""
    assert operation.status in SUCCEEDED
    assert operation.completed_at is not None
    origin = Origin(Trigger.FOLLOWUP, run_id=operation.run_id, parent_id=operation.id, depends_on_id=operation.id)
    queue.enqueue(session, INDEX, {}, origin, subject=kernel.subject(operation.repository_id or 0))


def breaking(_session: Session, _operation: Operation) -> None:
    raise ZeroDivisionError


def with_listeners(*listeners: Listener) -> Registry:
    return Registry.of(KINDS.values(), [(Effect.ARCHIVES_CHANGED, listener) for listener in listeners])


@pytest.mark.parametrize("end", ENDS)
def test_a_success_queues_its_followups_in_the_same_transaction(database: Database, end: Status) -> None:
    first = started(database)
    finish(database, first, end, with_listeners(following))

    with database.reading() as session:
        run = [member.kind for member in pages.of_run(session, read(database, first).run_id)]
    assert run == (["backup", "index"] if end in SUCCEEDED else ["backup"])


def test_a_kind_without_the_effect_calls_no_listener(database: Database) -> None:
    first = started(database, kernel.CHECK)
    finish(database, first, Status.COMPLETED, with_listeners(breaking))

    assert status_of(database, first) is Status.COMPLETED


def test_an_end_whose_followups_cannot_be_queued_is_rolled_back(database: Database) -> None:
    first = started(database)

    with pytest.raises(ZeroDivisionError):
        finish(database, first, Status.COMPLETED, with_listeners(following, breaking))
    assert status_of(database, first) is Status.RUNNING
    with database.reading() as session:
        assert len(pages.of_run(session, read(database, first).run_id)) == 1


def test_an_end_that_is_not_recorded_calls_no_listener(database: Database) -> None:
    known = read(database, started(database))
    finish(database, known, Status.COMPLETED)

    assert not finish(database, known, Status.COMPLETED, with_listeners(breaking))


def test_a_failure_with_effects_calls_its_listeners(database: Database) -> None:
    known = read(database, started(database))
    heard: list[tuple[int, str]] = []

    def noting(_session: Session, operation: Operation) -> None:
        heard.append((operation.id, operation.status))

    with database.writing() as session:
        transitions.finish(session, with_listeners(noting), known, Outcome(Status.FAILED, had_effects=True))

    assert heard == [(known.id, "failed")]


def test_waiting_threads_are_woken_after_the_commit_and_not_before(database: Database) -> None:
    seen = database.work.number
    with database.writing() as session:
        queue.enqueue(session, BACKUP, {}, Origin(Trigger.MANUAL), subject=kernel.subject(1))
        assert database.work.number == seen

    assert database.work.number == seen + 1


def enqueue_and_fail(session: Session) -> None:
    queue.enqueue(session, BACKUP, {}, Origin(Trigger.MANUAL), subject=kernel.subject(1))
    raise ZeroDivisionError


def test_a_transaction_that_fails_wakes_no_thread(database: Database) -> None:
    seen = database.work.number
    with pytest.raises(ZeroDivisionError):
        kernel.in_transaction(database, enqueue_and_fail)

    assert database.work.number == seen


def test_a_waiting_thread_wakes_when_an_operation_is_enqueued(database: Database) -> None:
    woken = threading.Event()
    seen = database.work.number

    def wait() -> None:
        if database.work.wait(seen, 60) != seen:
            woken.set()

    thread = threading.Thread(target=wait)
    thread.start()
    enqueue(database)
    thread.join(PATIENCE)
    assert woken.is_set()


# --- what a dependant needs -------------------------------------------------------------------------------------------


def needing(database: Database, first: int, needs: Needs) -> int:
    return enqueue(database, SCRIPT, None, Trigger.SCHEDULE, depends_on_id=first, depends_needs=needs)


@pytest.mark.parametrize("end", ENDS)
def test_a_dependant_that_needs_a_run_starts_after_every_end_but_a_skip(database: Database, end: Status) -> None:
    first = started(database)
    second = needing(database, first, Needs.RAN)
    assert claim(database) == []

    finish(database, first, end)
    assert claim(database) == ([second] if end is not Status.SKIPPED else [])
    late = needing(database, first, Needs.RAN)
    assert claim(database) == ([late] if end is not Status.SKIPPED else [])


def test_a_dependant_that_needs_a_run_is_skipped_if_its_dependency_never_started(database: Database) -> None:
    cancelled, failed = enqueue(database), enqueue(database)
    waiting = [needing(database, first, Needs.RAN) for first in (cancelled, failed)]
    cancel(database, cancelled)
    with database.writing() as session:
        transitions.fail_pending(session, failed, "agents.revoked", "The agent is gone.")

    late = [needing(database, first, Needs.RAN) for first in (cancelled, failed)]
    assert {status_of(database, number) for number in waiting + late} == {Status.SKIPPED}


@pytest.mark.parametrize("end", ENDS)
def test_a_dependant_that_needs_only_an_end_starts_after_every_end(database: Database, end: Status) -> None:
    first = started(database)
    second = needing(database, first, Needs.OVER)

    finish(database, first, end)
    assert claim(database) == [second]


def test_a_skip_spreads_only_to_dependants_that_need_a_success_or_a_run(database: Database) -> None:
    first = started(database)
    skipped = needing(database, first, Needs.SUCCEEDED)
    behind = [needing(database, skipped, needs) for needs in Needs]
    finish(database, first, Status.FAILED)

    assert [status_of(database, number) for number in (skipped, *behind)] == [
        "skipped",
        "skipped",
        "skipped",
        "pending",
    ]
    assert claim(database) == [behind[-1]]
