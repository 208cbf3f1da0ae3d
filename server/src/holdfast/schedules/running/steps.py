"""Which operations a released run consists of: a table of steps, and what each waits for. Pure: no store.

A new kind of step is a row of the table.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from holdfast.operations.status import Needs

SLACK = timedelta(hours=12)
NOT_DUE = "not_due"
NO_MIRROR = "no_mirror"
NO_DATABASES = "no_databases"
DUMP_SERIES = "{repository}-databases-{now}"
PRUNE_DUMPS = "prune_dumps"
RETENTION_PREFIX = "keep_"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the steps of one run are made for."""

    due_at: datetime
    gap: timedelta | None
    """The longest time between two due times of the schedule."""
    evidence: Mapping[str, datetime | None]
    """When each kind of step last succeeded on the repository."""
    template: str | None = None
    """The schedule's own archive names, if it has any."""
    repository_template: str = ""
    upload_kib: int | None = None
    has_mirror: bool = False
    has_databases: bool = False
    bandwidth: Sequence[tuple[str, int | None]] | None = None
    """The windows as a timetable of upload limits, for programs that follow one."""


Params = Callable[[Mapping[str, Any], Surroundings], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class StepKind:
    operation: str
    """The kind of its operation."""
    after: tuple[tuple[str, Needs], ...]
    """What it waits for: the first of these that is part of the run."""
    params: Params


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A step of a run. Without an operation it is left out this time."""

    kind: str
    operation: str | None = None
    params: dict[str, Any] = field(default_factory=dict)
    after: int | None = None
    """Its dependency's place among the steps that have operations."""
    needs: Needs = Needs.SUCCEEDED
    left_out: str | None = None
    next_at: datetime | None = None


def _backup(step: Mapping[str, Any], around: Surroundings) -> dict[str, Any]:
    del step
    return {
        **({"archive_name": around.template} if around.template else {}),
        **({"upload_ratelimit_kib": around.upload_kib} if around.upload_kib else {}),
    }


def _dump(step: Mapping[str, Any], around: Surroundings) -> dict[str, Any]:
    del step
    return {
        "archive_name": DUMP_SERIES,
        **({"upload_ratelimit_kib": around.upload_kib} if around.upload_kib else {}),
    }


def _prune(step: Mapping[str, Any], around: Surroundings) -> dict[str, Any]:
    kept = {name: value for name, value in step.items() if name.startswith(RETENTION_PREFIX) and value is not None}
    return {**kept, "complete": bool(kept), "series": around.template or around.repository_template}


def _chosen(*names: str) -> Params:
    def params(step: Mapping[str, Any], around: Surroundings) -> dict[str, Any]:
        del around
        return {name: step[name] for name in names if step.get(name) is not None}

    return params


def _mirror(step: Mapping[str, Any], around: Surroundings) -> dict[str, Any]:
    del step
    return {"bandwidth": [list(entry) for entry in around.bandwidth]} if around.bandwidth else {}


STEPS: Mapping[str, StepKind] = {
    "dump": StepKind("dump", (), _dump),
    "backup": StepKind("backup", (("dump", Needs.RAN),), _backup),
    "prune": StepKind("prune", (("backup", Needs.SUCCEEDED),), _prune),
    "compact": StepKind("compact", (("prune", Needs.SUCCEEDED), ("backup", Needs.SUCCEEDED)), _chosen("threshold")),
    "check": StepKind("check", (("backup", Needs.RAN),), _chosen("verify_data", "max_duration")),
    "restore_check": StepKind("restore_check", (("check", Needs.RAN), ("backup", Needs.RAN)), _chosen("sample")),
    "mirror": StepKind("sync", (("check", Needs.SUCCEEDED), ("backup", Needs.SUCCEEDED)), _mirror),
}
"""In the order in which they enter the queue, which is the order in which the repository's lane takes them."""


def plan(steps: Sequence[Mapping[str, Any]], around: Surroundings, *, all_due: bool = False) -> list[PlannedStep]:
    """Given the steps of a schedule, return those of a run in their order. `all_due`: whatever `every_days` says."""
    planned: list[PlannedStep] = []
    places: dict[str, int] = {}
    for step in sorted(steps, key=_order):
        kind = str(step["kind"])
        row = STEPS[kind]
        next_at = next_time(kind, step, around)
        if next_at is not None and not all_due:
            planned.append(PlannedStep(kind, left_out=NOT_DUE, next_at=next_at))
            continue
        if kind == "mirror" and not around.has_mirror:
            planned.append(PlannedStep(kind, left_out=NO_MIRROR))
            continue
        if kind == "dump" and not around.has_databases:
            planned.append(PlannedStep(kind, left_out=NO_DATABASES))
            continue
        awaited, needs = next(((name, needs) for name, needs in row.after if name in places), (None, Needs.SUCCEEDED))
        after = places[awaited] if awaited is not None else None
        places[kind] = len(places)
        planned.append(PlannedStep(kind, row.operation, row.params(step, around), after, needs))
        if kind == "prune" and "dump" in places:
            params = {**row.params(step, around), "series": DUMP_SERIES}
            planned.append(PlannedStep(PRUNE_DUMPS, row.operation, params, places["dump"], Needs.SUCCEEDED))
            places[PRUNE_DUMPS] = len(places)
    return planned


def next_time(kind: str, step: Mapping[str, Any], around: Surroundings) -> datetime | None:
    """When a step comes next that is not due this time; None if it is due. Judged on when it last succeeded."""
    every_days, last = step.get("every_days"), around.evidence.get(kind)
    if not every_days or last is None:
        return None
    due = last + timedelta(days=every_days)
    slack = min(SLACK, around.gap / 2) if around.gap is not None else SLACK
    return due if due - slack > around.due_at else None


def _order(step: Mapping[str, Any]) -> int:
    return list(STEPS).index(str(step["kind"]))


def needs_backup(steps: Sequence[Mapping[str, Any]]) -> bool:
    return any(step.get("kind") == "backup" for step in steps)
