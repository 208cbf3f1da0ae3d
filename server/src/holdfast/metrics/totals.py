"""Counters, kept in the store by reading the outbox: exact across restarts, and the same in every process."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from holdfast.metrics.exposition import label, number
from holdfast.metrics.models import MetricTotal
from holdfast.operations.models import Operation, OutboxEntry
from holdfast.operations.readers import Reader
from holdfast.operations.status import TERMINAL, Status
from holdfast.storage.inserts import conflict_aware_insert

FINISHED = "holdfast_operations_finished_total"
DURATION = "holdfast_operation_duration_seconds"
DUE = "holdfast_schedule_due_total"
DELIVERIES = "holdfast_deliveries_total"
BUCKETS = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 43200.0, 86400.0)
"""Upper bounds in seconds; a backup can take anything from a second to a day."""
BOUNDS = (*(number(end).removesuffix(".0") for end in BUCKETS), "+Inf")
LONGEST_WORD = 60

TOPICS = frozenset({"operation.updated", "schedule.run", "notification.delivery"})

Series = tuple[str, str]
"""Name and labels of a series."""


def count(session: Session, entries: Sequence[OutboxEntry]) -> None:
    """Add these outbox rows to the totals. Runs in the transaction that moves the reader's position."""
    added: Counter[Series] = Counter()
    durations = _durations(session, entries)
    for entry in entries:
        if entry.topic == "operation.updated":
            _count_operation(added, entry, durations)
        elif entry.topic == "schedule.run":
            _count_due(added, entry.payload)
        elif entry.topic == "notification.delivery":
            _count_delivery(added, entry.payload)
    _add(session, added)


def _count_operation(added: Counter[Series], entry: OutboxEntry, ended: Mapping[int, tuple[str, float | None]]) -> None:
    status = entry.payload.get("status")
    if status not in TERMINAL:
        return
    # A deleted operation no longer has a row, but it did end.
    kind, seconds = ended.get(entry.operation_id or 0, ("unknown", None))
    named = label("kind", kind)
    added[FINISHED, f"{named},{label('status', status)}"] += 1
    if seconds is None or status == Status.SKIPPED:
        return
    added[f"{DURATION}_sum", named] += seconds  # type: ignore[assignment]  # a Counter takes any number
    added[f"{DURATION}_count", named] += 1
    for bound in BOUNDS[bisect_left(BUCKETS, seconds) :]:
        added[f"{DURATION}_bucket", f'{named},le="{bound}"'] += 1


def _count_due(added: Counter[Series], payload: Mapping[str, Any]) -> None:
    outcome, reason = _word(payload.get("outcome")), _word(payload.get("reason"))
    times = payload.get("due_count", 1)
    added[DUE, f"{label('outcome', outcome)},{label('reason', reason)}"] += times if isinstance(times, int) else 1


def _count_delivery(added: Counter[Series], payload: Mapping[str, Any]) -> None:
    kind, state = _word(payload.get("kind")), _word(payload.get("state"))
    added[DELIVERIES, f"{label('kind', kind)},{label('state', state)}"] += 1


def _word(value: Any) -> str:
    return str(value)[:LONGEST_WORD] if value is not None else ""


def _durations(session: Session, entries: Iterable[OutboxEntry]) -> dict[int, tuple[str, float | None]]:
    """Kind and duration in seconds of each of these rows' operations that is still recorded."""
    ids = {entry.operation_id for entry in entries if entry.operation_id is not None}
    if not ids:
        return {}
    columns = select(Operation.id, Operation.kind, Operation.started_at, Operation.completed_at)
    found = session.execute(columns.where(Operation.id.in_(ids)))
    return {
        row.id: (
            row.kind,
            max(0.0, (row.completed_at - row.started_at).total_seconds())
            if row.started_at is not None and row.completed_at is not None
            else None,
        )
        for row in found
    }


def _add(session: Session, added: Mapping[Series, float]) -> None:
    if not added:
        return
    # Always in the same order, so that two transactions never wait for each other.
    rows = [{"name": name, "labels": labels, "value": value} for (name, labels), value in sorted(added.items())]
    statement = conflict_aware_insert(session, MetricTotal).values(rows)
    grown = MetricTotal.value + statement.excluded.value
    session.execute(statement.on_conflict_do_update(index_elements=["name", "labels"], set_={"value": grown}))


def read(session: Session) -> dict[str, list[tuple[str, float]]]:
    """All totals by family, each with its labels."""
    found: dict[str, list[tuple[str, float]]] = {}
    for row in session.execute(select(MetricTotal.name, MetricTotal.labels, MetricTotal.value).order_by(*_ORDER)):
        found.setdefault(row.name, []).append((row.labels, row.value))
    return found


_ORDER = (MetricTotal.name, MetricTotal.labels)
READER = Reader("metrics", count, TOPICS, ends_only=True)
