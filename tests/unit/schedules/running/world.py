"""A store with repositories and schedules, and a clock that the test sets: helpers for tests of the tick."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from pydantic import BaseModel, ConfigDict
from sqlalchemy import select, update

from holdfast.agents.models import AgentMachine
from holdfast.kit import zones
from holdfast.kit.supervisor import Supervisor
from holdfast.operations import pages, queue, transitions
from holdfast.operations.kinds import Kind, Registry, failed_when_interrupted
from holdfast.operations.locks import Access
from holdfast.operations.models import Operation
from holdfast.operations.outcome import Outcome
from holdfast.operations.status import Status, Trigger
from holdfast.repositories import store as repositories
from holdfast.repositories.models import Repository
from holdfast.schedules import store
from holdfast.schedules.calendar import plan
from holdfast.schedules.models import Schedule, ScheduleRun
from holdfast.schedules.running import run_results
from holdfast.schedules.running.plans import calendar_of
from holdfast.schedules.running.tick import Tick
from holdfast.storage.session import Database

BEGIN = datetime(2026, 3, 2, 0, 0, tzinfo=UTC)
NIGHTLY = {"schedule_mode": "cron", "cron_expression": "0 2 * * *", "timezone": "UTC"}
BACKUP = [{"kind": "backup"}]
ALL_STEPS = [
    {"kind": "backup"},
    {"kind": "prune", "keep_daily": 7},
    {"kind": "compact", "every_days": 7},
    {"kind": "check", "every_days": 30},
    {"kind": "restore_check", "every_days": 30, "sample": 10},
]


class AnyParams(BaseModel):
    model_config = ConfigDict(extra="allow")


def a_kind(name: str) -> Kind:
    return Kind(
        name=name,
        category=name,
        run=lambda _context: Outcome(Status.COMPLETED),
        params=AnyParams,
        on_interrupted=failed_when_interrupted,
        access=Access.CHANGE,
        limit_group=name,
    )


REGISTRY = Registry.of(
    a_kind(name) for name in ("dump", "backup", "prune", "compact", "check", "restore_check", "sync")
)


@dataclass
class World:
    database: Database
    now: datetime = BEGIN
    ticks: list[Tick] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ticks.append(Tick(self.database, REGISTRY, Supervisor()))

    # --- creating rows ------------------------------------------------------------------------------------------------

    def repository(self, name: str | None = None, **values: Any) -> int:
        number = uuid4().hex
        defaults: dict[str, Any] = {
            "uuid": number,
            "name": name or f"repository {number}",
            "path": f"/srv/{number}",
            "identity": f"/srv/{number}",
            "engine_version": 1,
            "repository_type": "local",
            "execution_target": "local",
            "encryption": "none",
            "compression": "lz4",
            "source_paths": ["/etc"],
            "own_sources": [],
            "exclude_patterns": [],
            "archive_name_template": "{repository}-{now}",
            "custom_flags": [],
            "mode": "full",
            "passphrase_location": "service",
            "index_mode": "off",
            "history_index_excludes": [],
            "retention": {},
            "labels": {},
            "created_at": self.now,
            "updated_at": self.now,
        }
        with self.database.writing() as session:
            repository = Repository(**{**defaults, **values})
            session.add(repository)
            session.flush()
            return repository.id

    def agent(self, status: str = "online", **values: Any) -> int:
        number = uuid4().hex
        with self.database.writing() as session:
            machine = AgentMachine(
                **{
                    "name": number,
                    "agent_id": number,
                    "token_hash": number,
                    "token_prefix": number[:8],
                    "hostname": "far",
                    "os": "linux",
                    "arch": "x",
                    "agent_version": "1",
                    "engine_versions": [],
                    "capabilities": ["backup.create"],
                    "labels": {},
                    "status": status,
                    "created_at": self.now,
                    "updated_at": self.now,
                    **values,
                }
            )
            session.add(machine)
            session.flush()
            return machine.id

    def schedule(self, *repositories: int, **values: Any) -> int:
        defaults: dict[str, Any] = {
            "uuid": uuid4().hex,
            "name": uuid4().hex,
            "enabled": True,
            **NIGHTLY,
            "targets": {"repository_ids": list(repositories)},
            "exclude_repository_ids": [],
            "steps": BACKUP,
            "windows": [],
            "on_window_close": "finish",
            "catch_up": "once",
            "start_within_minutes": 60,
            "overlap": "skip",
            "spread_minutes": 0,
            "retries": 3,
            "revision": 1,
            "created_at": self.now,
            "updated_at": self.now,
            "tz_version": zones.VERSION,
        }
        with self.database.writing() as session:
            schedule = Schedule(**{**defaults, **values})
            calendar = calendar_of(schedule)
            schedule.longest_gap_seconds = int(plan.longest_gap(calendar, self.now).total_seconds())
            first = plan.next_due(calendar, self.now) if schedule.schedule_mode != "availability" else self.now
            schedule.next_due_at = values.get("next_due_at", first)
            store.insert(session, schedule)
            return schedule.id

    # --- time and events ----------------------------------------------------------------------------------------------

    def tick(self, now: datetime | None = None, process: int = 0) -> None:
        self.now = now or self.now
        self.ticks[process].once(self.now)

    def walk(self, until: datetime, step: timedelta = timedelta(minutes=1)) -> None:
        while self.now < until:
            self.tick(min(self.now + step, until))

    def new_process(self) -> int:
        self.ticks.append(Tick(self.database, REGISTRY, Supervisor()))
        return len(self.ticks) - 1

    def change(self, schedule_id: int, **values: Any) -> None:
        with self.database.writing() as session:
            schedule = store.lock(session, schedule_id)
            assert schedule is not None
            for name, value in values.items():
                setattr(schedule, name, value)
            schedule.revision += 1

    def change_repository(self, repository_id: int, **values: Any) -> None:
        with self.database.writing() as session:
            session.execute(update(Repository).where(Repository.id == repository_id).values(**values))

    def pause(self, *, paused: bool = True) -> None:
        with self.database.writing() as session:
            store.change_state(session, paused=paused)

    def agent_goes(self, agent_id: int, status: str) -> None:
        with self.database.writing() as session:
            session.execute(update(AgentMachine).where(AgentMachine.id == agent_id).values(status=status))
            if status == "online":
                store.agents_came_online(session, [agent_id], self.now)

    def end(self, operation_id: int, status: Status = Status.COMPLETED, error_key: str | None = None) -> None:
        """Let an operation run and end."""
        with self.database.writing() as session:
            operation = pages.get(session, operation_id)
            assert operation is not None
            if operation.status == Status.PENDING:
                transitions.move(
                    session, operation_id, Status.PENDING, Status.RUNNING, started_at=self.now, runner_id="r"
                )
                session.expire_all()
                operation = session.get_one(Operation, operation_id)
            transitions.finish(session, REGISTRY, operation, Outcome(status, error_key=error_key))

    def end_all(self, status: Status = Status.COMPLETED, error_key: str | None = None) -> int:
        """End everything in the queue in its order; return the number. What was skipped meanwhile is left alone."""
        number = 0
        while waiting := [one for one in self.operations() if one.status in ("pending", "running")]:
            free = [
                one
                for one in waiting
                if one.depends_on_id is None or self.operation(one.depends_on_id).status not in ("pending", "running")
            ]
            self.end(free[0].id, status, error_key)
            number += 1
        self.settle()
        return number

    def backup_by_hand(self, repository_id: int, completed_at: datetime) -> int:
        """A successful backup that no schedule started."""
        with self.database.writing() as session:
            repository = session.get_one(Repository, repository_id)
            asked = queue.Origin(Trigger.MANUAL)
            subject = repositories.subject(repository)
            number = queue.enqueue(session, REGISTRY.kinds["backup"], {}, asked, subject=subject).id
        self.end(number)
        with self.database.writing() as session:
            session.execute(update(Operation).where(Operation.id == number).values(completed_at=completed_at))
        return number

    def settle(self) -> None:
        with self.database.writing() as session:
            run_results.sweep(session, self.now)

    # --- reading ------------------------------------------------------------------------------------------------------

    def rows(self, schedule_id: int | None = None, *, voided: bool = False) -> list[ScheduleRun]:
        statement = select(ScheduleRun).order_by(ScheduleRun.due_at, ScheduleRun.repository_id, ScheduleRun.id)
        if schedule_id is not None:
            statement = statement.where(ScheduleRun.schedule_id == schedule_id)
        if not voided:
            statement = statement.where(ScheduleRun.voided_at.is_(None))
        with self.database.reading() as session:
            return list(session.scalars(statement))

    def told(self, schedule_id: int) -> list[tuple[datetime, str, str | None]]:
        return [(row.due_at, row.outcome, row.reason) for row in self.rows(schedule_id)]

    def read(self, schedule_id: int) -> Schedule:
        with self.database.reading() as session:
            return session.get_one(Schedule, schedule_id)

    def operations(self) -> list[Operation]:
        with self.database.reading() as session:
            return list(session.scalars(select(Operation).order_by(Operation.id)))

    def operation(self, number: int) -> Operation:
        with self.database.reading() as session:
            return session.get_one(Operation, number)


def at(day: int, hour: int = 0, minute: int = 0, month: int = 3) -> datetime:
    return datetime(2026, month, day, hour, minute, tzinfo=UTC)


def kinds(found: Sequence[Operation]) -> list[str]:
    return [operation.kind for operation in found]
