"""Vocabulary of the kernel's tests: kinds that do nothing, and one-line steps, each in its own transaction."""

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel
from sqlalchemy import delete, select

from backup_protocol import Block
from holdfast.agents.models import AgentMachine
from holdfast.kit import clock
from holdfast.operations import limits as kernel_limits
from holdfast.operations import pages, queue, transitions
from holdfast.operations.context import Context
from holdfast.operations.job_work import JobWork
from holdfast.operations.kinds import Effect, Kind, Registry, failed_when_interrupted
from holdfast.operations.limits import LimitsChange
from holdfast.operations.locks import Access
from holdfast.operations.models import Operation, OutboxEntry
from holdfast.operations.outcome import Outcome
from holdfast.operations.queue import Origin, Subject
from holdfast.operations.status import Status, Trigger
from holdfast.storage.session import Database


class NoParams(BaseModel):
    pass


def _never_run(_context: Context) -> Outcome:
    raise AssertionError("the kernel's tests run nothing")


def a_kind(name: str, access: Access | None = Access.CHANGE, group: str | None = None, *effects: Effect) -> Kind:
    return Kind(
        name=name,
        category="maintenance" if group == "maintenance" else name,
        run=_never_run,
        params=NoParams,
        on_interrupted=failed_when_interrupted,
        access=access,
        limit_group=group,
        effects=frozenset(effects),
        agent=JobWork("backup.create", lambda _session, _operation: Block(), lambda *_: Outcome(Status.COMPLETED)),
    )


BACKUP = a_kind("backup", Access.CHANGE, "backup", Effect.ARCHIVES_CHANGED)
CHECK = a_kind("check", Access.CHANGE, "maintenance")
RESTORE = a_kind("restore", Access.READ, "restore")
INDEX = a_kind("index", Access.READ, "index")
SCRIPT = a_kind("script", None, None)
KINDS = {kind.name: kind for kind in (BACKUP, CHECK, RESTORE, INDEX, SCRIPT)}
REGISTRY = Registry.of(KINDS.values())


AGENT = 1


def subject(repository_id: int, executor: str = "runner") -> Subject:
    agent = AGENT if executor == "agent" else None
    return Subject(repository_id, f"repository {repository_id}", f"/srv/{repository_id}", agent, executor)


def add_agent(database: Database, status: str = "online", capabilities: tuple[str, ...] = ("backup.create",)) -> None:
    """Add the agent that opens the repositories of operations that an agent executes."""
    now = clock.now()
    values = {"name": "far", "agent_id": "far", "token_hash": "", "token_prefix": "", "labels": {}}
    machine = {"hostname": "far", "os": "linux", "arch": "x", "agent_version": "1", "engine_versions": []}
    times = {"last_seen_at": now, "created_at": now, "updated_at": now}
    with database.writing() as session:
        session.execute(delete(AgentMachine))
        session.add(
            AgentMachine(id=AGENT, status=status, capabilities=list(capabilities), **values, **machine, **times)
        )


def enqueue(
    database: Database, kind: Kind = BACKUP, repository: int | None = 1, trigger: Trigger = Trigger.MANUAL, **more: Any
) -> int:
    origin_names = ("run_id", "parent_id", "depends_on_id", "depends_needs", "retry_of")
    origin = Origin(trigger, **{name: more.pop(name) for name in origin_names if name in more})
    with database.writing() as session:
        executor = more.pop("executor", "runner")
        if executor == "inline":
            assert repository is not None
            return queue.enqueue_inline(session, kind, "me", queue.lane_of(repository), subject(repository)).id
        about = subject(repository, executor) if repository is not None else None
        return queue.enqueue(session, kind, {}, origin, subject=about, **more).id


def claim(database: Database, runner: str = "runner", capacity: int = 64) -> list[int]:
    with database.writing() as session:
        return queue.claim(session, runner, "/spool", capacity=capacity)


def started(database: Database, *wanted: Any, **more: Any) -> int:
    """Enqueue one operation and start it."""
    operation_id = enqueue(database, *wanted, **more)
    assert operation_id in claim(database)
    return operation_id


def read(database: Database, operation_id: int) -> Operation:
    with database.reading() as session:
        found = pages.get(session, operation_id)
    assert found is not None
    return found


def status_of(database: Database, operation_id: int) -> Status:
    return Status(read(database, operation_id).status)


def finish(database: Database, operation: Operation | int, status: Status, registry: Registry = REGISTRY) -> bool:
    """End an operation as a runner that has read it earlier does."""
    known = operation if isinstance(operation, Operation) else read(database, operation)
    with database.writing() as session:
        return transitions.finish(session, registry, known, Outcome(status))


def cancel(database: Database, operation_id: int) -> Status | None:
    with database.writing() as session:
        return transitions.request_cancel(session, operation_id)


def change_limits(database: Database, **limits: int) -> None:
    with database.writing() as session:
        kernel_limits.change(session, LimitsChange(**limits))


def pause(database: Database, *, paused: bool = True) -> None:
    with database.writing() as session:
        kernel_limits.put(session, "paused", paused)


def in_transaction(database: Database, action: Callable[..., Any], *arguments: Any, **more: Any) -> Any:
    with database.writing() as session:
        return action(session, *arguments, **more)


def told(database: Database, operation_id: int) -> list[str]:
    """The status changes of an operation in the outbox, in order."""
    with database.reading() as session:
        wanted = select(OutboxEntry.payload).where(OutboxEntry.operation_id == operation_id).order_by(OutboxEntry.id)
        return [payload["status"] for payload in session.scalars(wanted)]
