"""All series of `/metrics`, read from the store. No engine runs, and no table of operations is scanned."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, case, column, func, select, table
from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from holdfast.agents import last_seen_times
from holdfast.agents.models import AgentMachine
from holdfast.metrics import totals
from holdfast.metrics.exposition import Family, distinct, label, line_end
from holdfast.operations.models import Operation
from holdfast.operations.status import Status
from holdfast.repositories.models import Repository
from holdfast.repositories.overdue import OverdueAfter, OverdueRules
from holdfast.storage.base import Base
from holdfast.storage.bulk import flushed_connection
from holdfast.storage.types import UtcDateTime

LAST_SUCCESS = {
    "backup": "last_backup",
    "check": "last_check",
    "prune": "last_prune",
    "compact": "last_compact",
    "restore_check": "last_restore_check",
    "index": "last_index",
    "mirror": "last_mirror",
}
"""For each kind of work, the repository column with its last success."""


@frozen
class Reader:
    """What is needed to make one answer."""

    session: Session
    version: str
    store: str
    most: int
    """With more repositories, agents or schedules than this, the answer contains only sums."""
    rules: OverdueRules
    now: datetime


def families(reader: Reader) -> list[Family]:
    counted = totals.read(reader.session)
    return [
        _build_info(reader),
        _counter(totals.FINISHED, "Operations that ended, by kind and status.", counted),
        _active(reader),
        _durations(counted),
        *_repositories(reader),
        _counter(totals.DUE, "Due times of schedules that got their outcome.", counted),
        *_schedules(reader),
        *_agents(reader),
        _alarms(reader),
        _counter(totals.DELIVERIES, "Notifications that were sent or given up.", counted),
        _deliveries_waiting(reader),
    ]


# --- the service and its operations -----------------------------------------------------------------------------------


def _build_info(reader: Reader) -> Family:
    family = Family("holdfast_build_info", "gauge", "Version of the service and kind of its store.")
    family.add(1, label("version", reader.version), label("store", reader.store))
    return family


def _counter(name: str, about: str, counted: Mapping[str, list[tuple[str, float]]]) -> Family:
    family = Family(name, "counter", about)
    for labels, value in counted.get(name, ()):
        family.add(_whole(value), labels)
    return family


def _active(reader: Reader) -> Family:
    family = Family("holdfast_operations_active", "gauge", "Operations that run or wait, by kind and status.")
    for row in reader.session.execute(_ACTIVE):
        family.add(row.number, label("kind", row.kind), label("status", row.status))
    return family


def _durations(counted: Mapping[str, list[tuple[str, float]]]) -> Family:
    """The duration histogram. Every kind gets every bucket, in order, including empty ones."""
    family = Family(totals.DURATION, "histogram", "From start to end of operations, by kind.")
    buckets = dict(counted.get(f"{totals.DURATION}_bucket", ()))
    sums = dict(counted.get(f"{totals.DURATION}_sum", ()))
    for labels, number in counted.get(f"{totals.DURATION}_count", ()):
        for bound in totals.BOUNDS:
            bucket = f'{labels},le="{bound}"'
            family.add(_whole(buckets.get(bucket, 0)), bucket, suffix="_bucket")
        family.add(sums.get(labels, 0.0), labels, suffix="_sum")
        family.add(_whole(number), labels, suffix="_count")
    return family


def _whole(value: float) -> float:
    return int(value) if value == int(value) else value


# --- repositories -----------------------------------------------------------------------------------------------------


def _repositories(reader: Reader) -> list[Family]:
    success = Family("holdfast_last_success_timestamp_seconds", "gauge", "Last success, by repository and kind.")
    threshold = Family(
        "holdfast_overdue_threshold_seconds", "gauge", "Age of the last success beyond which it is overdue."
    )
    size = Family("holdfast_repository_size_bytes", "gauge", "Deduplicated size of a repository; in sums, of all.")
    archives = Family("holdfast_repository_archives", "gauge", "Archives of a repository; in sums, of all.")
    free = Family("holdfast_repository_storage_free_bytes", "gauge", "Free space where the repository is stored.")
    number = Family("holdfast_repositories", "gauge", "Number of repositories.")
    overdue = Family("holdfast_repositories_overdue", "gauge", "Repositories whose last success is too old, by kind.")
    rows = flushed_connection(reader.session).execute(_REPOSITORIES).all()
    rules = _OverdueLimits(reader)
    labels = distinct("repository", ((row[0], row[1]) for row in rows)) if len(rows) <= reader.most else {}
    late = [0] * len(LAST_SUCCESS)
    for number_of, _, created_at, unique_size, archive_count, free_bytes, *times in rows:
        limits, thresholds = rules.of(number_of)
        for place, before in limits:
            if (times[place] or created_at) < before:
                late[place] += 1
        of_row = labels.get(number_of)
        if of_row is None:
            continue
        done = zip(_KINDS, times, strict=True)
        success.add_series(of_row, [f"{kind}}} {at.timestamp()!r}" for kind, at in done if at is not None])
        threshold.add_series(of_row, thresholds)
        _add_known(size, unique_size, of_row)
        _add_known(archives, archive_count, of_row)
        _add_known(free, free_bytes, of_row)
    if rows and not labels:
        size.add(sum(row.unique_size or 0 for row in rows))
        archives.add(sum(row.archive_count or 0 for row in rows))
    number.add(len(rows))
    for kind, repositories in zip(_KINDS, late, strict=True):
        overdue.add(repositories, kind)
    summed = _summed("repositories", is_summed=bool(rows) and not labels)
    return [success, threshold, size, archives, free, number, overdue, summed]


class _OverdueLimits:
    """When work is overdue. Most repositories share their rules, so each set of rules is computed once."""

    def __init__(self, reader: Reader) -> None:
        self._now = reader.now
        self._rules = reader.rules.of_all(reader.session)
        self._known: dict[int, _Limits] = {}

    def of(self, repository_id: int) -> "_Limits":
        cells = self._rules.get(repository_id, _NO_CELLS)
        found = self._known.get(id(cells))
        if found is None:
            limits, thresholds = [], []
            for place, kind in enumerate(LAST_SUCCESS):
                if kind in cells:
                    limits.append((place, self._now - timedelta(seconds=cells[kind].seconds)))
                    thresholds.append(line_end(_whole(cells[kind].seconds), _KINDS[place]))
            found = self._known[id(cells)] = limits, thresholds
        return found


_Limits = tuple[list[tuple[int, datetime]], list[str]]
"""The oldest allowed success for each kind, by its position, and the series of the thresholds."""
_NO_CELLS: Mapping[str, OverdueAfter] = {}


def _add_known(family: Family, value: float | None, *labels: str) -> None:
    if value is not None:
        family.add(value, *labels)


def _summed(what: str, *, is_summed: bool) -> Family:
    """1 if there are too many for a series each."""
    family = Family(f"holdfast_metrics_{what}_summed", "gauge", f"1 when there are too many {what} for a series each.")
    family.add(int(is_summed))
    return family


# --- schedules --------------------------------------------------------------------------------------------------------


def _schedules(reader: Reader) -> list[Family]:
    due = Family("holdfast_schedule_next_due_timestamp_seconds", "gauge", "Next due time of an enabled schedule.")
    success = Family("holdfast_schedule_last_run_success", "gauge", "1 if the last run succeeded on every repository.")
    rows = reader.session.execute(_SCHEDULES).all()
    listed = rows if len(rows) <= reader.most else []
    labels = distinct("schedule", ((row.id, row.name) for row in listed))
    results = {row.schedule_id: row.bad == 0 for row in reader.session.execute(_LAST_RUNS)} if listed else {}
    for row in listed:
        _add_time(due, row.next_due_at, labels[row.id])
        if row.id in results:
            success.add(int(results[row.id]), labels[row.id])
    tick = Family("holdfast_schedule_tick_timestamp_seconds", "gauge", "Last time that due schedules were checked.")
    took = Family("holdfast_schedule_tick_duration_seconds", "gauge", "Duration of that tick.")
    waiting = Family("holdfast_schedule_runs_waiting", "gauge", "Runs that are due and wait for their conditions.")
    state = reader.session.execute(_TICK).first()
    if state is not None:
        _add_time(tick, state.last_tick_at)
        if state.last_tick_milliseconds is not None:
            took.add(state.last_tick_milliseconds / 1000)
    waiting.add(reader.session.scalar(_RUNS_WAITING) or 0)
    return [due, success, tick, took, waiting, _summed("schedules", is_summed=len(rows) > reader.most)]


def _add_time(family: Family, at: datetime | None, *labels: str) -> None:
    if at is not None:
        family.add(at.timestamp(), *labels)


# --- agents, alarms, notifications ------------------------------------------------------------------------------------


def _agents(reader: Reader) -> list[Family]:
    by_status = Family("holdfast_agents", "gauge", "Agents, by status.")
    seen = Family("holdfast_agent_last_seen_timestamp_seconds", "gauge", "Last heartbeat of an agent.")
    number = 0
    for row in reader.session.execute(_AGENTS_BY_STATUS):
        by_status.add(row.number, label("status", row.status))
        number += row.number
    if number <= reader.most:
        agents = reader.session.execute(_AGENTS).all()
        labels = distinct("agent", ((agent.id, agent.name) for agent in agents))
        heard = last_seen_times.all_agents(reader.session)
        for agent in agents:
            _add_time(seen, last_seen_times.latest((agent.last_seen_at, heard.get(agent.id))), labels[agent.id])
    return [by_status, seen, _summed("agents", is_summed=number > reader.most)]


def _alarms(reader: Reader) -> Family:
    family = Family("holdfast_alarms", "gauge", "Open alarms, by kind and severity, acknowledged ones included.")
    for row in reader.session.execute(_ALARMS):
        family.add(row.number, label("kind", row.kind), label("severity", row.severity))
    return family


def _deliveries_waiting(reader: Reader) -> Family:
    family = Family("holdfast_deliveries_waiting", "gauge", "Notifications that are still to be sent.")
    if _deliveries.name in Base.metadata.tables:
        family.add(reader.session.scalar(_DELIVERIES_WAITING) or 0)
    return family


# --- statements -------------------------------------------------------------------------------------------------------

_KINDS = [label("kind", kind) for kind in LAST_SUCCESS]
_ACTIVE = (
    select(Operation.kind, Operation.status, func.count().label("number"))
    .where(Operation.status.in_((Status.PENDING, Status.RUNNING)), Operation.executor != "inline")
    .group_by(Operation.kind, Operation.status)
    .order_by(Operation.kind, Operation.status)
)
_BEFORE_TIMES = (
    Repository.id,
    Repository.name,
    Repository.created_at,
    Repository.unique_size,
    Repository.archive_count,
    Repository.storage_free_bytes,
)
_TIMES = tuple(getattr(Repository, name) for name in LAST_SUCCESS.values())
_REPOSITORIES: Select[Any] = select(*_BEFORE_TIMES, *_TIMES).order_by(Repository.id)
_AGENTS_BY_STATUS = (
    select(AgentMachine.status, func.count().label("number"))
    .group_by(AgentMachine.status)
    .order_by(AgentMachine.status)
)
_AGENTS = select(AgentMachine.id, AgentMachine.name, AgentMachine.last_seen_at).order_by(AgentMachine.id)

# The tables of other features, referenced only by name.
_SUCCEEDED = ("completed", "completed_with_warnings")
_NEIGHBOURS = 10_000
"""The rows of one due time are written together: their ids are at most this far apart."""
_plans = table("schedules", column("id"), column("name"), column("next_due_at", UtcDateTime), column("deleted_at"))
_runs = table(
    "schedule_runs",
    *map(column, ("id", "schedule_id", "due_at", "outcome", "result", "look_at", "settled_at", "voided_at")),
)
_state = table("schedule_state", column("last_tick_at", UtcDateTime), column("last_tick_milliseconds"))
_SCHEDULES = select(_plans.c.id, _plans.c.name, _plans.c.next_due_at).where(_plans.c.deleted_at.is_(None))
_SCHEDULES = _SCHEDULES.order_by(_plans.c.id)
_newest, _last, _same = _runs.alias("newest"), _runs.alias("last"), _runs.alias("same")


def _has_ended(runs: Any) -> tuple[ColumnElement[bool], ...]:
    """Rows that show whether a schedule works: it ran and ended, or could not be run."""
    return runs.c.settled_at.is_not(None), runs.c.voided_at.is_(None), runs.c.outcome.in_(("ran", "missed"))


_NEWEST = select(func.max(_newest.c.id)).where(_newest.c.schedule_id == _plans.c.id, *_has_ended(_newest))
_LAST_RUNS = (
    select(
        _plans.c.id.label("schedule_id"),
        func.sum(case((_same.c.result.in_(_SUCCEEDED), 0), else_=1)).label("bad"),
    )
    .select_from(_plans)
    .join(_last, _last.c.id == _NEWEST.correlate(_plans).scalar_subquery())
    .join(
        _same,
        and_(
            _same.c.schedule_id == _plans.c.id,
            _same.c.id.between(_last.c.id - _NEIGHBOURS, _last.c.id + _NEIGHBOURS),
            _same.c.due_at == _last.c.due_at,
            *_has_ended(_same),
        ),
    )
    .where(_plans.c.deleted_at.is_(None))
    .group_by(_plans.c.id)
)
_TICK = select(_state.c.last_tick_at, _state.c.last_tick_milliseconds)
_RUNS_WAITING = (
    select(func.count()).select_from(_runs).where(_runs.c.look_at.is_not(None), _runs.c.outcome == "waiting")
)
_alarms_table = table("alarms", column("kind"), column("severity"), column("state"))
_ALARMS = (
    select(_alarms_table.c.kind, _alarms_table.c.severity, func.count().label("number"))
    .where(_alarms_table.c.state == "open")
    .group_by(_alarms_table.c.kind, _alarms_table.c.severity)
    .order_by(_alarms_table.c.kind, _alarms_table.c.severity)
)
_deliveries = table("deliveries", column("state"))
_DELIVERIES_WAITING = (
    select(func.count()).select_from(_deliveries).where(_deliveries.c.state.in_(("waiting", "sending")))
)
