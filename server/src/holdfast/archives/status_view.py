"""One cell per kind of care that a repository needs, from evidence alone."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from holdfast.archives.schemas import CellName, StatusAnswer, StatusCell
from holdfast.kit import clock
from holdfast.operations import store as operations
from holdfast.operations.models import Operation
from holdfast.operations.status import TERMINAL, Status
from holdfast.operations.store import Filter
from holdfast.repositories.models import Repository

NEVER = "never"
ENDED = tuple(sorted(TERMINAL - {Status.SKIPPED}))


@dataclass(frozen=True, slots=True)
class Care:
    cell: CellName
    kinds: tuple[str, ...]
    column: str | None
    """The repository's own record of the last success."""
    days: int | None
    """After so many days without it, it is overdue."""


CARE = (
    Care("backup", ("backup",), "last_backup", 7),
    Care("check", ("check",), "last_check", 30),
    Care("prune", ("prune",), "last_prune", 30),
    Care("compact", ("compact",), "last_compact", 30),
    Care("restore_check", ("restore_check",), "last_restore_check", 90),
    Care("index", ("archives", "stats", "history"), "last_index", 7),
    Care("mirror", ("sync",), "last_mirror", 7),
)


def status(session: Session, repository: Repository, *, overdue: bool) -> StatusAnswer:
    running = _running_kinds(session, repository.id)
    cells = [_cell(session, repository, care, running, with_overdue=overdue) for care in CARE]
    return StatusAnswer(cells=cells, overdue_available=overdue)


def _cell(session: Session, repository: Repository, care: Care, running: set[str], *, with_overdue: bool) -> StatusCell:
    success: datetime | None = getattr(repository, care.column) if care.column else None
    ended = _last_ended(session, repository.id, care.kinds)
    if care.cell == "backup" and _is_outdated(ended, success):
        ended = None
    not_wanted = (care.cell == "index" and repository.index_mode == "off") or (care.cell == "mirror" and not success)
    days = None if not_wanted else care.days
    return StatusCell(
        cell=care.cell,
        status=ended.status if ended else str(Status.COMPLETED) if success else NEVER,
        completed_at=ended.completed_at if ended else success,
        age_seconds=int(clock.seconds_between(success, clock.now())) if success else None,
        threshold_days=days,
        overdue=_is_overdue(success or repository.created_at, days) if with_overdue else None,
        running=not running.isdisjoint(care.kinds),
        source=f"operation:{ended.id}" if ended else "repository" if success else None,
    )


def _is_outdated(ended: Operation | None, success: datetime | None) -> bool:
    """True when an archive is newer than the last backup of ours: somebody else has made it."""
    return bool(ended and ended.completed_at and success and success > ended.completed_at)


def _is_overdue(since: datetime, days: int | None) -> bool | None:
    """What has never been done is due so many days after the repository became known."""
    return None if days is None else clock.now() - since > timedelta(days=days)


def _last_ended(session: Session, repository_id: int, kinds: tuple[str, ...]) -> Operation | None:
    narrowed = Filter(repository_id=repository_id, kinds=kinds, statuses=ENDED)
    found, _ = operations.page(session, narrowed, 1, None)
    return found[0] if found else None


def _running_kinds(session: Session, repository_id: int) -> set[str]:
    statement = select(Operation.kind).where(
        Operation.status == Status.RUNNING, Operation.repository_id == repository_id
    )
    return set(session.scalars(statement))
