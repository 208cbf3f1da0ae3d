"""Which operations the indexing of a repository lets pass between two archives."""

from datetime import timedelta

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from holdfast.archives.lane_waiters import _waiter, continuation
from holdfast.archives.stage_params import StageParams
from holdfast.kit import clock
from holdfast.operations import limits
from holdfast.operations.kinds import Kind, retry_when_interrupted
from holdfast.operations.locks import Access
from holdfast.operations.models import Operation
from holdfast.operations.outcome import Outcome
from holdfast.operations.status import AGEING_SECONDS_PER_POINT, PRIORITY, LockMode, Status, Trigger
from holdfast.storage.session import Database
from tests.unit.archives.records import a_repository, an_operation

HISTORY = Kind(
    name="history",
    category="index",
    run=lambda _context: Outcome(Status.COMPLETED),
    params=StageParams,
    on_interrupted=retry_when_interrupted,
    access=Access.READ,
)


def running(session: Session, trigger: Trigger = Trigger.FOLLOWUP) -> Operation:
    repository = a_repository(session)
    return an_operation(
        session, repository, "history", Status.RUNNING, trigger=trigger, priority=PRIORITY[trigger], runner_id="r"
    )


def waiting(session: Session, holder: Operation, trigger: Trigger, **values: object) -> Operation:
    repository = a_repository(session)
    now = clock.now()
    return an_operation(
        session,
        repository,
        "backup",
        Status.PENDING,
        **{
            "trigger": trigger,
            "priority": PRIORITY[trigger],
            "queue_rank": now.timestamp() + PRIORITY[trigger] * AGEING_SECONDS_PER_POINT,
            "lock_key": holder.lock_key,
            "lock_mode": LockMode.EXCLUSIVE,
            **values,
        },
    )


@pytest.mark.parametrize("trigger", [Trigger.MANUAL, Trigger.SCHEDULE])
def test_a_backup_that_waits_for_the_repository_is_let_pass(database: Database, trigger: Trigger) -> None:
    with database.writing() as session:
        history = running(session)
        backup = waiting(session, history, trigger)

        assert _waiter(session, history) == backup.id


def test_an_operation_that_ranks_behind_the_remaining_work_is_not_let_pass(database: Database) -> None:
    """Otherwise the remaining work would start before it and give way again, and so on."""
    with database.writing() as session:
        asked_for = running(session, Trigger.MANUAL)
        backup = waiting(session, asked_for, Trigger.SCHEDULE)
        assert _waiter(session, asked_for) is None

        backup.queue_rank = clock.now().timestamp() - 1
        session.flush()
        assert _waiter(session, asked_for) == backup.id, "it has waited long enough to be first"


@pytest.mark.parametrize("values", [{"lock_mode": LockMode.SHARED}, {"lock_key": "repository:999"}])
def test_readers_and_operations_on_other_repositories_need_not_be_let_pass(
    database: Database, values: dict[str, object]
) -> None:
    with database.writing() as session:
        history = running(session)
        waiting(session, history, Trigger.MANUAL, **values)

        assert _waiter(session, history) is None


def test_an_operation_that_waits_for_something_else_is_not_let_pass(database: Database) -> None:
    with database.writing() as session:
        history = running(session)
        waiting(session, history, Trigger.FOLLOWUP, depends_on_id=history.id)
        assert _waiter(session, history) is None

        waiting(session, history, Trigger.FOLLOWUP, queue_rank=0.0)
        limits.put(session, "paused", True)
        session.flush()
        assert _waiter(session, history) is None, "the pause holds it"


def test_the_remaining_work_is_queued_in_the_same_run_behind_the_operation_let_pass(database: Database) -> None:
    with database.writing() as session:
        parent = an_operation(session, a_repository(session), "backup", Status.COMPLETED)
        history = running(session)
        history.parent_id = parent.id
        backup = waiting(session, history, Trigger.MANUAL)
        session.flush()
        continuation(HISTORY, history)(session)
        rest = session.scalars(select(Operation).where(Operation.kind == "history", Operation.id != history.id)).one()

        assert (rest.run_id, rest.parent_id, rest.trigger) == (history.run_id, parent.id, history.trigger)
        assert (rest.lock_key, rest.lock_mode) == (history.lock_key, LockMode.SHARED)
        assert rest.queue_rank > backup.queue_rank
        assert rest.created_at - clock.now() < timedelta(seconds=60)
