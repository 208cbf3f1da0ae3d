"""A status changes only as the table allows, only from the expected status, and only once even under concurrency."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import text, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from holdfast.operations import queue, runners, transitions
from holdfast.operations.models import Operation
from holdfast.operations.outcome import Outcome
from holdfast.operations.status import ACTIVE, SUCCEEDED, TERMINAL, TRANSITIONS, Status
from holdfast.storage.session import Database
from tests.support.service import PATIENCE, wait_until
from tests.unit.operations import kernel
from tests.unit.operations.kernel import REGISTRY, cancel, claim, enqueue, finish, read, started, status_of, told


def set_status(database: Database, operation_id: int, status: Status) -> None:
    with database.writing() as session:
        session.execute(update(Operation).where(Operation.id == operation_id).values(status=status))


# --- the table --------------------------------------------------------------------------------------------------------


def test_every_status_is_active_or_terminal_and_no_transition_leaves_a_terminal_one() -> None:
    assert set(TRANSITIONS) == set(Status) == ACTIVE | TERMINAL
    assert not ACTIVE & TERMINAL
    assert SUCCEEDED < TERMINAL
    assert all(TRANSITIONS[status] == frozenset() for status in TERMINAL)


def test_a_status_changes_only_as_the_table_allows(database: Database) -> None:
    operation_id = enqueue(database)
    for old in Status:
        for new in Status:
            set_status(database, operation_id, old)
            if new in TRANSITIONS[old]:
                assert kernel.in_transaction(database, transitions.move, operation_id, old, new), (old, new)
                assert status_of(database, operation_id) is new
            else:
                with pytest.raises(ValueError, match="never goes"):
                    kernel.in_transaction(database, transitions.move, operation_id, old, new)
                assert status_of(database, operation_id) is old


def test_a_status_that_changed_meanwhile_is_kept_and_not_announced(database: Database) -> None:
    operation_id = enqueue(database)
    before = told(database, operation_id)
    for real in Status:
        for believed in ACTIVE - {real}:
            set_status(database, operation_id, real)
            for new in TRANSITIONS[believed]:
                assert not kernel.in_transaction(database, transitions.move, operation_id, believed, new)
            assert status_of(database, operation_id) is real

    assert told(database, operation_id) == before


def test_the_store_refuses_an_unknown_status(database: Database) -> None:
    operation_id = enqueue(database)

    with pytest.raises(IntegrityError), database.writing() as session:
        session.execute(text("UPDATE operations SET status = 'done' WHERE id = :id"), {"id": operation_id})


def test_a_change_and_its_outbox_row_are_committed_together_or_not_at_all(database: Database) -> None:
    operation_id = started(database)
    known = read(database, operation_id)

    def finish_and_fail(session: Session) -> None:
        assert transitions.finish(session, REGISTRY, known, Outcome(Status.COMPLETED))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        kernel.in_transaction(database, finish_and_fail)

    assert status_of(database, operation_id) is Status.RUNNING
    assert told(database, operation_id) == ["pending", "running"]


def test_every_change_is_announced_once_and_in_order(database: Database) -> None:
    operation_id = started(database)
    requeue(database, read(database, operation_id))
    claim(database)
    cancel(database, operation_id)
    finish(database, operation_id, Status.CANCELLED)

    assert told(database, operation_id) == ["pending", "running", "pending", "running", "running", "cancelled"]


# --- who may end it ---------------------------------------------------------------------------------------------------


def requeue(database: Database, known: Operation, delay_seconds: float = 0.0) -> bool:
    with database.writing() as session:
        return transitions.requeue_for_next_attempt(session, known, log_lines=3, delay_seconds=delay_seconds)


def take_over(database: Database, known: Operation, runner: str) -> bool:
    with database.writing() as session:
        return runners.take_over(session, known, runner)


@pytest.mark.parametrize("status", sorted(TRANSITIONS[Status.RUNNING] - {Status.PENDING}))
def test_a_running_operation_ends_once(database: Database, status: Status) -> None:
    known = read(database, started(database))

    assert finish(database, known, status)
    assert not finish(database, known, Status.FAILED)
    ended = read(database, known.id)
    assert ended.status == status
    assert ended.completed_at is not None


def test_a_pending_operation_cannot_be_finished(database: Database) -> None:
    known = read(database, enqueue(database))

    assert not finish(database, known, Status.COMPLETED)
    assert status_of(database, known.id) is Status.PENDING


def test_a_runner_cannot_end_an_operation_that_another_one_took_over(database: Database) -> None:
    known = read(database, started(database))
    assert take_over(database, known, "heir")

    assert not finish(database, known, Status.FAILED)
    assert not requeue(database, known)
    assert finish(database, read(database, known.id), Status.COMPLETED)
    assert status_of(database, known.id) is Status.COMPLETED


def test_a_runner_cannot_end_a_later_attempt(database: Database) -> None:
    known = read(database, started(database))
    assert requeue(database, known)
    assert claim(database) == [known.id]

    assert not finish(database, known, Status.FAILED)
    assert not requeue(database, known)
    assert not take_over(database, known, "heir")
    assert read(database, known.id).attempt == 2


def test_only_one_of_two_heirs_takes_over(database: Database) -> None:
    known = read(database, started(database))

    assert [take_over(database, known, heir) for heir in ("one", "two")] == [True, False]
    assert read(database, known.id).runner_id == "one"


def test_an_ended_operation_cannot_be_taken_over(database: Database) -> None:
    known = read(database, started(database))
    finish(database, known, Status.COMPLETED)

    assert not take_over(database, known, "heir")


def test_the_next_attempt_keeps_the_start_time_and_the_log_file(database: Database) -> None:
    first = read(database, started(database))
    requeue(database, first)
    waiting = read(database, first.id)
    claim(database, "another")
    second = read(database, first.id)

    assert (waiting.attempt, waiting.runner_id, waiting.spool, waiting.log_base_line) == (2, None, None, 3)
    assert (second.runner_id, second.started_at, second.log_file) == ("another", first.started_at, first.log_file)


def test_an_operation_that_never_started_waits_as_if_it_had_not_been_claimed(database: Database) -> None:
    known = read(database, started(database))
    with database.writing() as session:
        assert transitions.requeue_as_never_started(session, known)

    waiting = read(database, known.id)
    assert (waiting.status, waiting.attempt, waiting.started_at, waiting.runner_id) == ("pending", 1, None, None)


def test_a_back_off_delays_the_start_of_an_operation(database: Database) -> None:
    known = read(database, started(database))
    requeue(database, known, delay_seconds=3600)

    assert claim(database) == []
    with database.writing() as session:
        session.execute(update(Operation).values(available_at=read(database, known.id).created_at))
    assert claim(database) == [known.id]


# --- cancelling -------------------------------------------------------------------------------------------------------


def test_a_pending_operation_is_cancelled_immediately(database: Database) -> None:
    operation_id = enqueue(database)

    assert cancel(database, operation_id) is Status.CANCELLED
    ended = read(database, operation_id)
    assert (ended.status, ended.started_at) == ("cancelled", None)
    assert ended.completed_at is not None
    assert claim(database) == []


def test_cancelling_a_running_operation_is_a_request_and_it_runs_until_its_runner_ends_it(database: Database) -> None:
    operation_id = started(database)

    assert cancel(database, operation_id) is Status.RUNNING
    asked_at = read(database, operation_id).cancel_requested_at
    assert asked_at is not None
    assert kernel.in_transaction(database, runners.cancel_requested_of, "runner") == [operation_id]
    assert cancel(database, operation_id) is Status.RUNNING
    assert read(database, operation_id).cancel_requested_at == asked_at
    assert finish(database, operation_id, Status.COMPLETED)


@pytest.mark.parametrize("end", sorted(TERMINAL))
def test_a_late_cancel_does_not_change_how_an_operation_ended(database: Database, end: Status) -> None:
    operation_id = enqueue(database)
    set_status(database, operation_id, end)

    assert cancel(database, operation_id) is end
    assert read(database, operation_id).cancel_requested_at is None


def test_cancelling_an_operation_that_does_not_exist_returns_nothing(database: Database) -> None:
    assert cancel(database, 12345) is None


def test_an_operation_whose_cancellation_was_requested_is_not_requeued(database: Database) -> None:
    known = read(database, started(database))
    cancel(database, known.id)

    assert not requeue(database, known)
    with database.writing() as session:
        assert not transitions.requeue_as_never_started(session, known)
    assert status_of(database, known.id) is Status.RUNNING


def test_removing_a_repository_cancels_only_its_own_pending_operations(database: Database) -> None:
    running = started(database)
    mine = [enqueue(database), enqueue(database, kernel.CHECK)]
    other = enqueue(database, repository=2)
    with database.writing() as session:
        assert transitions.cancel_pending_of_repository(session, 1, categories=("maintenance",)) == 1
    assert status_of(database, mine[1]) is Status.CANCELLED
    with database.writing() as session:
        assert transitions.cancel_pending_of_repository(session, 1) == 1

    assert [status_of(database, number) for number in (running, mine[0], other)] == ["running", "cancelled", "pending"]


# --- at the same time -------------------------------------------------------------------------------------------------

Step = Callable[[Session], Any]


def overlapped(database: Database, first: Step, second: Step) -> tuple[Any, Any]:
    """Begin the second step after the statements of the first, but before its commit; return both results."""
    answers: list[Any] = []

    def run_second() -> None:
        with database.writing() as session:
            answers.append(second(session))

    thread = threading.Thread(target=run_second)
    with database.writing() as session:
        answer = first(session)
        thread.start()
        if not database.is_sqlite:  # on SQLite the second one has no transaction before the first has ended
            wait_until(lambda: answers or somebody_waits(session), what="the second step waits for the first")
    thread.join(PATIENCE)
    assert len(answers) == 1
    return answer, answers[0]


def somebody_waits(session: Session) -> bool:
    waiting = (
        "SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = database OR database IS NULL WHERE "
        "NOT granted"
    )
    return bool(session.execute(text(waiting)).scalar_one())


def finishing(known: Operation, status: Status) -> Step:
    return lambda session: transitions.finish(session, REGISTRY, known, Outcome(status))


def cancelling(operation_id: int) -> Step:
    return lambda session: transitions.request_cancel(session, operation_id)


def test_a_cancel_concurrent_with_the_end_returns_the_actual_status(database: Database) -> None:
    known = read(database, started(database))

    assert overlapped(database, finishing(known, Status.COMPLETED), cancelling(known.id)) == (True, Status.COMPLETED)
    assert status_of(database, known.id) is Status.COMPLETED


def test_a_cancel_concurrent_with_a_claim_reaches_the_running_operation(database: Database) -> None:
    operation_id = enqueue(database)

    claimed, answer = overlapped(
        database, lambda session: queue.claim(session, "runner", "/spool", capacity=1), cancelling(operation_id)
    )
    assert (claimed, answer) == ([operation_id], Status.RUNNING)
    assert read(database, operation_id).cancel_requested_at is not None


def test_a_claim_concurrent_with_a_cancel_gets_nothing(database: Database) -> None:
    operation_id = enqueue(database)

    answers = overlapped(
        database, cancelling(operation_id), lambda session: queue.claim(session, "runner", "/spool", capacity=1)
    )
    assert answers == (Status.CANCELLED, [])


def test_a_cancel_concurrent_with_a_requeue_is_not_lost(database: Database) -> None:
    known = read(database, started(database))

    queued, answer = overlapped(
        database,
        lambda session: transitions.requeue_for_next_attempt(session, known, log_lines=0, delay_seconds=0),
        cancelling(known.id),
    )
    assert (queued, answer) == (True, Status.CANCELLED)
    assert status_of(database, known.id) is Status.CANCELLED


def test_ending_an_operation_during_its_takeover_is_refused(database: Database) -> None:
    known = read(database, started(database))

    answers = overlapped(
        database, lambda session: runners.take_over(session, known, "heir"), finishing(known, Status.FAILED)
    )
    assert answers == (True, False)
    assert read(database, known.id).runner_id == "heir"


def test_taking_over_an_operation_during_its_end_is_refused(database: Database) -> None:
    known = read(database, started(database))

    answers = overlapped(
        database, finishing(known, Status.COMPLETED), lambda session: runners.take_over(session, known, "heir")
    )
    assert answers == (True, False)


def test_concurrent_claims_never_get_the_same_operation(database: Database) -> None:
    operations = [enqueue(database, repository=number) for number in range(1, 5)]

    first, second = overlapped(
        database,
        lambda session: queue.claim(session, "one", "/spool", capacity=2),
        lambda session: queue.claim(session, "two", "/spool", capacity=2),
    )
    assert first == operations[:2]
    assert second == operations[2:]
