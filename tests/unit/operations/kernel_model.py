"""A simple model of the kernel: plain records and the state that each must reach."""

from dataclasses import dataclass, field
from datetime import UTC, datetime

from holdfast.operations.kinds import Kind
from holdfast.operations.lanes import Holder, Waiter
from holdfast.operations.limits import Limits
from holdfast.operations.models import Operation
from holdfast.operations.status import PRIORITY, SUCCEEDED, TERMINAL, TRANSITIONS, Status, Trigger
from tests.unit.operations.kernel import AGENT
from tests.unit.operations.rules import Expected, expect

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Record:
    """The model's state of one operation."""

    id: int
    kind: Kind
    repository: int | None
    trigger: Trigger
    executor: str
    rank: float
    depends_on: int | None
    parent: int | None = None
    status: Status = Status.PENDING
    attempt: int = 1
    runner: str | None = None
    available_at: datetime | None = None
    cancel_requested: bool = False
    told: list[str] = field(default_factory=lambda: ["pending"])

    @property
    def lane(self) -> str | None:
        if self.repository is None:
            return None
        if self.kind.lock:
            return f"repository:{self.repository}"
        return f"agent:{AGENT}" if self.executor == "agent" else None  # agents are only offered work in lanes

    @property
    def mode(self) -> str | None:
        return str(self.kind.lock or "shared") if self.lane is not None else None

    @property
    def group(self) -> str | None:
        return self.kind.limit_group if self.executor == "runner" else None

    def become(self, status: Status) -> None:
        assert status in TRANSITIONS[self.status]
        self.status = status
        self.told.append(str(status))


class Model:
    def __init__(self) -> None:
        super().__init__()
        self.records: dict[int, Record] = {}
        self.limits = Limits()
        self.paused = False
        self.now = BEGIN

    def add(self, operation: Operation, kind: Kind, repository: int | None, executor: str = "runner") -> Record:
        trigger = Trigger(operation.trigger)
        rank = operation.created_at.timestamp() + PRIORITY[trigger] * 60
        record = Record(
            operation.id, kind, repository, trigger, executor, rank, operation.depends_on_id, operation.parent_id
        )
        self.records[record.id] = record
        dependency = self.records.get(record.depends_on or 0)
        if dependency is not None and dependency.status in TERMINAL - SUCCEEDED:
            record.become(Status.SKIPPED)
        return record

    def skip_dependants(self, of: int) -> None:
        for record in self.records.values():
            if record.depends_on == of and record.status is Status.PENDING:
                record.become(Status.SKIPPED)
                self.skip_dependants(record.id)

    def end(self, record: Record, status: Status) -> None:
        record.become(status)
        if status not in SUCCEEDED:
            self.skip_dependants(record.id)

    def back_to_the_queue(self, record: Record) -> None:
        record.become(Status.PENDING)
        record.runner = None

    def has(self, status: Status) -> bool:
        return any(record.status is status for record in self.records.values())

    def queue(self) -> list[Record]:
        pending = [record for record in self.records.values() if record.status is Status.PENDING]
        return sorted(pending, key=lambda record: (record.rank, record.id))

    def waiters(self) -> list[Waiter]:
        return [
            Waiter(
                record.id,
                record.trigger,
                record.lane,
                record.mode,
                record.group,
                self.unfinished_dependency(record),
                record.available_at,
                record.executor,
            )
            for record in self.queue()
        ]

    def unfinished_dependency(self, record: Record) -> int | None:
        dependency = self.records.get(record.depends_on or 0)
        return record.depends_on if dependency and dependency.status not in TERMINAL else None

    def holders(self) -> list[Holder]:
        running = [record for record in self.records.values() if record.status is Status.RUNNING]
        return [Holder(record.id, record.lane, record.mode, record.group) for record in running]

    def expected(self, waiting: list[Waiter]) -> dict[int, Expected]:
        return expect(
            waiting,
            self.holders(),
            limits=self.limits.by_group(),
            total=self.limits.max_running_total,
            paused=self.paused,
            now=self.now,
        )

    def startable(self) -> list[Record]:
        expected = self.expected(self.waiters())
        return [self.records[number] for number, wanted in expected.items() if wanted.reason is None]

    def pick(self, number: int, *statuses: Status) -> Record:
        """One of the operations in these statuses; a precondition guarantees that there is one."""
        candidates = sorted(one.id for one in self.records.values() if one.status in statuses)
        return self.records[candidates[number % len(candidates)]]
