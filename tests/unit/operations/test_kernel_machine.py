"""The kernel compared with a simple model of it: any steps, in any order, on both stores.

Hypothesis draws the steps; after each one the rows, the waiting reasons, the lanes and the outbox must match the model.
The suite runs a fixed set; `HOLDFAST_KERNEL_EXAMPLES=2000` runs that many others, new ones each time.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from holdfast.kit import clock
from holdfast.operations import limits as kernel_limits
from holdfast.operations import pages, runners, transitions, waiting_reasons
from holdfast.operations import queue as operation_queue
from holdfast.operations.kinds import Effect, Registry
from holdfast.operations.limits import GROUP_FIELDS, LimitsChange
from holdfast.operations.models import KernelSetting, Operation, OutboxEntry
from holdfast.operations.outcome import Outcome
from holdfast.operations.queue import Origin
from holdfast.operations.status import SUCCEEDED, TERMINAL, TRANSITIONS, Status, Trigger
from holdfast.storage.session import Database
from tests.support.postgres import parent_of_folders
from tests.support.stores import KINDS as STORES
from tests.support.stores import a_store
from tests.unit.operations.kernel import INDEX, KINDS, add_agent, subject
from tests.unit.operations.kernel_model import Model, Record
from tests.unit.operations.rules import conflict

EXAMPLES = int(os.environ.get("HOLDFAST_KERNEL_EXAMPLES", "0"))
SUITE_EXAMPLES = 8
STEPS = 40
NUMBERS = st.integers(0, 30)
"""Picks one of several items, however many there are."""
ENDS = sorted(TRANSITIONS[Status.RUNNING] - {Status.PENDING})


class Kernel(Model, RuleBasedStateMachine):
    """Steps on the real store, each followed by the same step on the model."""

    database: Database

    def __init__(self) -> None:
        super().__init__()
        self.living = ["runner 1"]
        self.dead: list[str] = []
        self.names = 1
        self.handles: list[Operation] = []
        self.registry = Registry.of(KINDS.values(), [(Effect.ARCHIVES_CHANGED, self.follow_up)])
        self.followed: list[int] = []
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(clock, "now", self.tick)
        with self.database.writing() as session:
            for table in (Operation, OutboxEntry, KernelSetting):
                session.execute(delete(table))
        add_agent(self.database)

    def teardown(self) -> None:
        self.patch.undo()

    def tick(self) -> datetime:
        """A clock that never returns the same time twice."""
        self.now += timedelta(milliseconds=1)
        return self.now

    # --- the store, and the model of it ---------------------------------------------------------------------------

    def follow_up(self, session: Session, operation: Operation) -> None:
        """A listener of the real registry: queues an index run behind a successful backup."""
        assert operation.status in SUCCEEDED
        origin = Origin(Trigger.FOLLOWUP, run_id=operation.run_id, parent_id=operation.id, depends_on_id=operation.id)
        queued = operation_queue.enqueue(session, INDEX, {}, origin, subject=subject(operation.repository_id or 0))
        self.followed.append(queued.id)

    def add_followed(self) -> int:
        """Add to the model what the listener has queued; return the number of operations."""
        new, self.followed = self.followed, []
        with self.database.reading() as session:
            for number in new:
                operation = pages.get(session, number)
                assert operation is not None
                self.add(operation, INDEX, operation.repository_id)
        return len(new)

    def read(self, record: Record) -> Operation:
        with self.database.reading() as session:
            operation = pages.get(session, record.id)
        assert operation is not None
        return operation

    def remember(self, record: Record) -> None:
        """Keep a runner's view of its operation: the runner may act on it when it is outdated."""
        self.handles.append(self.read(record))

    # --- steps: work is added -------------------------------------------------------------------------------------

    @rule(
        kind=st.sampled_from(sorted(KINDS)),
        repository=st.integers(1, 2),
        trigger=st.sampled_from(Trigger),
        executor=st.sampled_from(["runner", "runner", "runner", "agent"]),
    )
    def enqueue(self, kind: str, repository: int, trigger: Trigger, executor: str) -> None:
        with self.database.writing() as session:
            operation = operation_queue.enqueue(
                session, KINDS[kind], {}, Origin(trigger), subject=subject(repository, executor)
            )
        self.add(operation, KINDS[kind], repository, executor)

    @precondition(lambda self: self.records)
    @rule(kind=st.sampled_from(sorted(KINDS)), repository=st.integers(1, 2), before=NUMBERS)
    def enqueue_behind(self, kind: str, repository: int, before: int) -> None:
        origin = Origin(Trigger.PLAN, depends_on_id=self.pick(before, *Status).id)
        with self.database.writing() as session:
            operation = operation_queue.enqueue(session, KINDS[kind], {}, origin, subject=subject(repository))
        self.add(operation, KINDS[kind], repository)

    # --- steps: work starts ---------------------------------------------------------------------------------------

    @precondition(lambda self: self.living and self.has(Status.PENDING))
    @rule(runner=NUMBERS, capacity=st.integers(1, 5))
    def claim(self, runner: int, capacity: int) -> None:
        name = self.living[runner % len(self.living)]
        wanted = [record for record in self.startable() if record.executor == "runner"][:capacity]
        with self.database.writing() as session:
            claimed = operation_queue.claim(session, name, "/spool", capacity=capacity)
        assert claimed == [record.id for record in wanted]
        for record in wanted:
            self.start(record, name)

    def start(self, record: Record, runner: str) -> None:
        record.become(Status.RUNNING)
        record.runner = runner
        record.available_at = None
        self.remember(record)

    @precondition(lambda self: self.living and self.has(Status.PENDING))
    @rule(number=NUMBERS)
    def claim_one(self, number: int) -> None:
        """As an inline call does for its own operation; only its lane is considered."""
        record = self.pick(number, Status.PENDING)
        if record.lane is None:
            return
        on_lane = [waiter for waiter in self.waiters() if waiter.lock_key == record.lane]
        may_start = self.expected(on_lane)[record.id].reason is None
        with self.database.writing() as session:
            verdict = operation_queue.claim_one(session, record.id, self.living[0], "/spool")
        assert verdict.may_start == may_start
        if may_start:
            self.start(record, self.living[0])

    # --- steps: work ends -----------------------------------------------------------------------------------------

    @precondition(lambda self: self.has(Status.RUNNING))
    @rule(number=NUMBERS, status=st.sampled_from(ENDS))
    def finish(self, number: int, status: Status) -> None:
        record = self.pick(number, Status.RUNNING)
        known = self.read(record)
        with self.database.writing() as session:
            assert transitions.finish(session, self.registry, known, Outcome(status))
        self.end(record, status)
        assert self.add_followed() == (record.kind.name == "backup" and status in SUCCEEDED)

    @precondition(lambda self: self.handles)
    @rule()
    def act_on_what_is_no_longer_true(self) -> None:
        """Runners that were cut off return: their operation has another runner or another attempt, or has ended."""
        with self.database.writing() as session:
            for known in self.handles:
                if not self.is_still_true(known):
                    assert not transitions.finish(session, self.registry, known, Outcome(Status.FAILED))
                    assert not transitions.requeue_for_next_attempt(session, known, log_lines=0, delay_seconds=0)
                    assert not transitions.requeue_as_never_started(session, known)
                    assert not runners.take_over(session, known, "thief")

    def is_still_true(self, known: Operation) -> bool:
        record = self.records.get(known.id)
        if record is None or record.status is not Status.RUNNING:
            return False
        return (record.runner, record.attempt) == (known.runner_id, known.attempt)

    @precondition(lambda self: self.has(Status.RUNNING))
    @rule(number=NUMBERS, delay=st.sampled_from([0.0, 1.0, 600.0]))
    def try_again(self, number: int, delay: float) -> None:
        record = self.pick(number, Status.RUNNING)
        known = self.read(record)
        with self.database.writing() as session:
            queued = transitions.requeue_for_next_attempt(session, known, log_lines=0, delay_seconds=delay)
        assert queued is not record.cancel_requested
        if queued:
            self.back_to_the_queue(record)
            record.attempt += 1
            record.available_at = self.read(record).available_at

    @precondition(lambda self: self.records)
    @rule(number=NUMBERS)
    def cancel(self, number: int) -> None:
        record = self.pick(number, *Status)
        with self.database.writing() as session:
            answer = transitions.request_cancel(session, record.id)
        if record.status is Status.PENDING:
            record.cancel_requested = True
            self.end(record, Status.CANCELLED)
        elif record.status is Status.RUNNING:
            record.cancel_requested = True
            record.told.append("running")
        assert answer is record.status

    @precondition(lambda self: self.has(Status.PENDING))
    @rule(repository=st.integers(1, 2))
    def cancel_all_that_waits_for(self, repository: int) -> None:
        waiting = sorted((record.id for record in self.queue() if record.repository == repository), reverse=True)
        with self.database.writing() as session:
            transitions.cancel_pending_of_repository(session, repository)
        for record in (self.records[number] for number in waiting):
            if record.status is Status.PENDING:
                record.cancel_requested = True
                self.end(record, Status.CANCELLED)

    @precondition(lambda self: self.records)
    @rule(number=NUMBERS)
    def fail_before_the_start(self, number: int) -> None:
        record = self.pick(number, *Status)
        pending = record.status is Status.PENDING
        with self.database.writing() as session:
            assert transitions.fail_pending(session, record.id, "agents.revoked", "Gone.") == pending
        if pending:
            self.end(record, Status.FAILED)

    @precondition(lambda self: self.records)
    @rule(number=NUMBERS)
    def delete(self, number: int) -> None:
        record = self.pick(number, *Status)
        ended = record.status in TERMINAL
        with self.database.writing() as session:
            assert transitions.delete_finished(session, record.id) == ended
        if ended:
            del self.records[record.id]
            for other in self.records.values():
                if other.parent == record.id:
                    other.parent = None

    # --- steps: runners start and die -----------------------------------------------------------------------------

    @precondition(lambda self: len(self.living) < 3)
    @rule()
    def another_runner(self) -> None:
        self.names += 1
        self.living.append(f"runner {self.names}")

    @precondition(lambda self: self.living)
    @rule(number=NUMBERS)
    def crash(self, number: int) -> None:
        self.dead.append(self.living.pop(number % len(self.living)))

    @precondition(lambda self: self.living and self.left_by_the_dead())
    @rule(what=st.sampled_from(["follow", "never started", *ENDS]))
    def recover(self, what: str) -> None:
        """An heir takes over all operations of dead runners, and finds the same state in all their spools."""
        heir = self.living[0]
        for record in self.left_by_the_dead():
            known = self.read(record)
            with self.database.writing() as session:
                assert runners.take_over(session, known, heir)
                assert not runners.take_over(session, known, "too late")
            record.runner = heir
            self.remember(record)
            if what == "never started":
                self.put_back(record)
            elif what != "follow":
                self.end_quietly(record, Status(what))

    def left_by_the_dead(self) -> list[Record]:
        running = [record for record in self.records.values() if record.status is Status.RUNNING]
        return [record for record in running if record.runner in self.dead]

    def put_back(self, record: Record) -> None:
        known = self.read(record)
        with self.database.writing() as session:
            queued = transitions.requeue_as_never_started(session, known)
            assert queued is not record.cancel_requested
            if not queued:
                assert transitions.finish(session, self.registry, known, Outcome(Status.CANCELLED))
        if queued:
            self.back_to_the_queue(record)
            assert (self.read(record).started_at is None) == (record.attempt == 1)
        else:
            self.end(record, Status.CANCELLED)

    def end_quietly(self, record: Record, status: Status) -> None:
        known = self.read(record)
        with self.database.writing() as session:
            assert transitions.finish(session, self.registry, known, Outcome(status))
        self.end(record, status)
        self.add_followed()

    # --- steps: settings and time change --------------------------------------------------------------------------

    @rule(paused=st.booleans())
    def pause(self, paused: bool) -> None:
        with self.database.writing() as session:
            kernel_limits.put(session, "paused", paused)
        self.paused = paused

    @rule(name=st.sampled_from([*GROUP_FIELDS.values(), "max_running_total"]), value=st.integers(1, 4))
    def change_a_limit(self, name: str, value: int) -> None:
        with self.database.writing() as session:
            told = kernel_limits.change(session, LimitsChange(**{name: value}))
        self.limits = self.limits.model_copy(update={name: value})
        assert told == self.limits

    @rule(seconds=st.sampled_from([1, 60, 700]))
    def time_passes(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    # --- invariants -----------------------------------------------------------------------------------------------

    @invariant()
    def the_record_is_what_the_model_says(self) -> None:
        columns = (Operation.id, Operation.status, Operation.attempt, Operation.runner_id, Operation.parent_id)
        with self.database.reading() as session:
            rows = session.execute(select(*columns, Operation.cancel_requested_at.is_not(None))).all()
        model = [
            (one.id, one.status, one.attempt, one.runner, one.parent, one.cancel_requested)
            for one in self.records.values()
        ]
        assert sorted(tuple(row) for row in rows) == sorted(model)

    @invariant()
    def everyone_is_told_the_true_reason(self) -> None:
        with self.database.reading() as session:
            waiting, judged = waiting_reasons.verdicts(session, self.now, everyone=True)
        assert waiting == self.waiters()
        expected = self.expected(waiting)
        assert [number for number, wanted in expected.items() if not wanted.allows(judged[number])] == []

    @invariant()
    def no_lane_is_held_by_two_who_exclude_each_other(self) -> None:
        with self.database.reading() as session:
            rows = session.execute(
                select(Operation.lock_key, Operation.lock_mode).where(
                    Operation.status == "running", Operation.lock_key.is_not(None)
                )
            ).all()
        for place, (lane, mode) in enumerate(rows):
            assert not [1 for other, with_mode in rows[:place] if other == lane and conflict(mode, with_mode)]

    @invariant()
    def the_outbox_tells_every_change_once(self) -> None:
        with self.database.reading() as session:
            rows = session.execute(select(OutboxEntry.operation_id, OutboxEntry.payload).order_by(OutboxEntry.id)).all()
        told: dict[int | None, list[str]] = {}
        for number, payload in rows:
            told.setdefault(number, []).append(payload["status"])
        assert {number: told[number] for number in self.records} == {one.id: one.told for one in self.records.values()}


@pytest.fixture(scope="module", params=STORES)
def store_in_memory(request: pytest.FixtureRequest) -> Iterator[Database]:
    """In memory, because thousands of commits would otherwise wait for the disk."""
    with ExitStack() as stack:
        parent = parent_of_folders(with_programs=False)
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-kernel-", dir=parent))
        yield stack.enter_context(a_store(request.param, Path(folder)))


@pytest.mark.slow
@pytest.mark.hypothesis  # the campaign generates new sequences
@pytest.mark.timeout(0 if EXAMPLES else 600)
def test_the_kernel_matches_the_model_after_any_sequence_of_steps(store_in_memory: Database) -> None:
    run_state_machine_as_test(
        type("KernelOnStore", (Kernel,), {"database": store_in_memory}),
        settings=settings(
            max_examples=EXAMPLES or SUITE_EXAMPLES,
            stateful_step_count=STEPS,
            derandomize=settings.default.derandomize and not EXAMPLES,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
