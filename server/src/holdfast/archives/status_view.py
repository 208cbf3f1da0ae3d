"""The status of a repository: one cell for each kind of regular work, from evidence only."""

import math
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from backup_protocol import JobKind
from holdfast.archives.schemas import CellName, StatusAnswer, StatusCell
from holdfast.kit import clock
from holdfast.operations import pages
from holdfast.operations.models import Operation
from holdfast.operations.pages import Filter
from holdfast.operations.status import TERMINAL, Status
from holdfast.repositories import agent_target
from holdfast.repositories.cadence import Cadence, NoCadence, Threshold
from holdfast.repositories.evidence_times import unless_ahead
from holdfast.repositories.models import Repository

DAY_SECONDS = 86_400.0
NEVER = "never"
UNAVAILABLE = "unavailable"
"""The repository's agent does not support this work."""
ENDED = tuple(sorted(TERMINAL - {Status.SKIPPED}))


@frozen
class Care:
    cell: CellName
    kinds: tuple[str, ...]
    column: str | None
    """The repository's column with the time of the last success."""
    days: int | None
    """Days after the last success at which the work is overdue."""
    capability: str = JobKind.ENGINE_CALL
    """The capability that the repository's agent needs for this work."""


CARE = (
    Care("backup", ("backup",), "last_backup", 7, JobKind.BACKUP_CREATE),
    Care("check", ("check",), "last_check", 30, JobKind.REPOSITORY_CHECK),
    Care("prune", ("prune",), "last_prune", 30, JobKind.REPOSITORY_PRUNE),
    Care("compact", ("compact",), "last_compact", 30, JobKind.REPOSITORY_COMPACT),
    Care("restore_check", ("restore_check",), "last_restore_check", 90),
    Care("index", ("archives", "stats", "history"), "last_index", 7, JobKind.ARCHIVES_LIST),
    Care("mirror", ("sync",), "last_mirror", 7),
)


def status(session: Session, repository: Repository, *, overdue: bool, cadence: Cadence | None = None) -> StatusAnswer:
    """Return all cells. Thresholds come from schedules if there are any, otherwise from constants."""
    running = _running_kinds(session, repository.id)
    planned = (cadence or NoCadence()).thresholds(session, repository)
    cells = [_cell(session, repository, care, running, planned.get(care.cell), with_overdue=overdue) for care in CARE]
    return StatusAnswer(cells=cells, overdue_available=overdue)


def _cell(
    session: Session,
    repository: Repository,
    care: Care,
    running: set[str],
    planned: Threshold | None,
    *,
    with_overdue: bool,
) -> StatusCell:
    success = unless_ahead(getattr(repository, care.column), clock.now()) if care.column else None
    ended = _last_ended(session, repository.id, care.kinds)
    if care.cell == "backup" and _is_outdated(ended, success):
        ended = None
    is_possible = agent_target.can(session, repository.agent_machine_id, care.capability)
    not_wanted = (care.cell == "index" and repository.index_mode == "off") or (
        care.cell == "mirror" and not success and planned is None
    )
    seconds = _threshold(care, planned) if is_possible and not not_wanted else None
    return StatusCell(
        cell=care.cell,
        status=ended.status if ended else str(Status.COMPLETED) if success else NEVER if is_possible else UNAVAILABLE,
        completed_at=ended.completed_at if ended else success,
        age_seconds=int(clock.seconds_between(success, clock.now())) if success else None,
        threshold_days=math.ceil(seconds / DAY_SECONDS) if seconds is not None else None,
        threshold_seconds=int(seconds) if seconds is not None else None,
        schedule_id=planned.schedule_id if planned is not None else None,
        next_due_at=planned.next_due_at if planned is not None else None,
        overdue=_is_overdue(success or repository.created_at, seconds) if with_overdue else None,
        running=not running.isdisjoint(care.kinds),
        source=f"operation:{ended.id}" if ended else "repository" if success else None,
    )


def _is_outdated(ended: Operation | None, success: datetime | None) -> bool:
    """Return True if an archive is newer than the last backup by Holdfast: another program has made it."""
    return bool(ended and ended.completed_at and success and success > ended.completed_at)


def _threshold(care: Care, planned: Threshold | None) -> float | None:
    if planned is not None:
        return planned.seconds
    return care.days * DAY_SECONDS if care.days is not None else None


def _is_overdue(since: datetime, seconds: float | None) -> bool | None:
    """Return whether work is overdue. If it was never done, count from when the repository was added."""
    return None if seconds is None else clock.now() - since > timedelta(seconds=seconds)


def _last_ended(session: Session, repository_id: int, kinds: tuple[str, ...]) -> Operation | None:
    narrowed = Filter(repository_id=repository_id, kinds=kinds, statuses=ENDED)
    found, _ = pages.page(session, narrowed, 1, None)
    return found[0] if found else None


def _running_kinds(session: Session, repository_id: int) -> set[str]:
    statement = select(Operation.kind).where(
        Operation.status == Status.RUNNING, Operation.repository_id == repository_id
    )
    return set(session.scalars(statement))
