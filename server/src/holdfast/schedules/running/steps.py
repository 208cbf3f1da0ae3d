"""Which operations a released run consists of, and what each of them waits for. Pure: no store.

To add a kind of step, add a row to the table.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from typing import Any

from backup_engine.frozen import frozen
from holdfast.operations.status import Needs

SLACK = timedelta(hours=12)
NOT_DUE = "not_due"
NO_MIRROR = "no_mirror"
NO_DATABASES = "no_databases"
DUMP_SERIES = "{repository}-databases-{now}"
PRUNE_DUMPS = "prune_dumps"
SCRIPT = "script"
SCRIPT_KIND = "script_execution"
ALWAYS = "always"
ONCE = "once"
AFTER = "script_after"
"""Where scripts after the backup are placed in the table."""
RETENTION_PREFIX = "keep_"


@frozen
class Surroundings:
    """The context for which the steps of one run are made."""

    due_at: datetime
    gap: timedelta | None
    """The longest time between two due times of the schedule."""
    evidence: Mapping[str, datetime | None]
    """When each kind of step last succeeded on the repository."""
    template: str | None = None
    """The schedule's own archive name template, if it has one."""
    repository_template: str = ""
    upload_kib: int | None = None
    has_mirror: bool = False
    has_databases: bool = False
    bandwidth: Sequence[tuple[str, int | None]] | None = None
    """The windows as a timetable of upload limits, for programs that follow one."""
    completed: Callable[[str, Mapping[str, Any]], Mapping[str, Any]] | None = None
    """Given a kind of operation and a step whose kind has rules of its own, return the parameters of the operation."""


Params = Callable[[Mapping[str, Any], Surroundings], dict[str, Any]]


@frozen
class StepKind:
    operation: str
    """The kind of its operation."""
    after: tuple[tuple[str, Needs], ...]
    """What it waits for: the first of these that is part of the run."""
    params: Params


@frozen
class PlannedStep:
    """A step of a run. A step without an operation is left out this time."""

    kind: str
    operation: str | None = None
    params: dict[str, Any] = field(default_factory=dict)
    after: int | None = None
    """The position of its dependency among the steps that have operations."""
    needs: Needs = Needs.SUCCEEDED
    left_out: str | None = None
    next_at: datetime | None = None
    warns: bool = False
    """If it fails, the run still succeeds, with warnings."""
    undoes: bool = False
    """It also runs if the run is cancelled before its turn has come."""
    once: bool = False
    """One operation for all repositories of the due time."""


def _script(step: Mapping[str, Any], around: Surroundings) -> dict[str, Any]:
    assert around.completed is not None
    return dict(around.completed(SCRIPT_KIND, {**step, "due_at": around.due_at.isoformat()}))


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
    SCRIPT: StepKind(SCRIPT_KIND, ((SCRIPT, Needs.SUCCEEDED),), _script),
    "dump": StepKind("dump", ((SCRIPT, Needs.SUCCEEDED),), _dump),
    "backup": StepKind("backup", (("dump", Needs.RAN), (SCRIPT, Needs.SUCCEEDED)), _backup),
    AFTER: StepKind(SCRIPT_KIND, ((AFTER, Needs.OVER), ("backup", Needs.OVER)), _script),
    "prune": StepKind("prune", (("backup", Needs.SUCCEEDED), (SCRIPT, Needs.SUCCEEDED)), _prune),
    "compact": StepKind(
        "compact",
        (("prune", Needs.SUCCEEDED), ("backup", Needs.SUCCEEDED), (SCRIPT, Needs.SUCCEEDED)),
        _chosen("threshold"),
    ),
    "check": StepKind(
        "check", (("backup", Needs.RAN), (SCRIPT, Needs.SUCCEEDED)), _chosen("verify_data", "max_duration")
    ),
    "restore_check": StepKind(
        "restore_check", (("check", Needs.RAN), ("backup", Needs.RAN), (SCRIPT, Needs.SUCCEEDED)), _chosen("sample")
    ),
    "mirror": StepKind(
        "sync", (("check", Needs.SUCCEEDED), ("backup", Needs.SUCCEEDED), (SCRIPT, Needs.SUCCEEDED)), _mirror
    ),
}
"""In the order in which they are queued, and in which the repository's lane takes them."""


def plan(steps: Sequence[Mapping[str, Any]], around: Surroundings, *, all_due: bool = False) -> list[PlannedStep]:
    """Given the steps of a schedule, return those of one run in order. `all_due` overrides `every_days`.

    Once-only scripts come first; those after the backups do not belong to the run.
    """
    planned: list[PlannedStep] = []
    places: dict[str, int] = {}
    count, last_script_warns = 0, False
    for step in sorted(steps, key=lambda step: (order(step), not is_once(step))):
        kind, name = str(step["kind"]), place_of(step)
        if name == AFTER and is_once(step):
            continue
        row = STEPS[name]
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
        if awaited == SCRIPT and last_script_warns:
            needs = Needs.RAN  # not OVER: a step skipped because an earlier script failed has not run
        places[name], count = count, count + 1
        warns = name == AFTER or (name == SCRIPT and step.get("on_failure") == "warn")
        undoes = name == AFTER and step.get("run_on", ALWAYS) == ALWAYS
        last_script_warns = warns if name == SCRIPT else last_script_warns
        params, once = row.params(step, around), is_once(step)
        planned.append(PlannedStep(kind, row.operation, params, after, needs, warns=warns, undoes=undoes, once=once))
        if kind == "prune" and "dump" in places:
            params = {**row.params(step, around), "series": DUMP_SERIES}
            planned.append(PlannedStep(PRUNE_DUMPS, row.operation, params, places["dump"], Needs.SUCCEEDED))
            places[PRUNE_DUMPS], count = count, count + 1
    return planned


def next_time(kind: str, step: Mapping[str, Any], around: Surroundings) -> datetime | None:
    """Return when a step that is not due this time is due next, based on its last success; None if it is due."""
    every_days, last = step.get("every_days"), around.evidence.get(kind)
    if not every_days or last is None:
        return None
    due = last + timedelta(days=every_days)
    slack = min(SLACK, around.gap / 2) if around.gap is not None else SLACK
    return due if due - slack > around.due_at else None


def place_of(step: Mapping[str, Any]) -> str:
    """Return the row of the table that a step belongs to."""
    kind = str(step["kind"])
    return AFTER if kind == SCRIPT and step.get("when") == "after" else kind


def is_once(step: Mapping[str, Any]) -> bool:
    return step.get("kind") == SCRIPT and step.get("scope") == ONCE


def order(step: Mapping[str, Any]) -> int:
    return _ORDER[place_of(step)]


_ORDER = {place: number for number, place in enumerate(STEPS)}


def needs_backup(steps: Sequence[Mapping[str, Any]]) -> bool:
    return any(step.get("kind") == "backup" for step in steps)
