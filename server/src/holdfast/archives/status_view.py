"""One cell per kind of care that a repository needs, from evidence alone."""

from datetime import datetime

from sqlalchemy.orm import Session

from holdfast.archives.schemas import StatusAnswer, StatusCell
from holdfast.kit import clock
from holdfast.operations import store as operations
from holdfast.operations.models import Operation
from holdfast.operations.status import Status
from holdfast.repositories.models import Repository

CELLS: tuple[tuple[str, tuple[str, ...], str | None, int | None], ...] = (
    # cell, kinds, column with the last success, days after which it is overdue
    ("backup", ("backup",), "last_backup", 7),
    ("check", ("check",), "last_check", 30),
    ("prune", ("prune",), "last_prune", 30),
    ("compact", ("compact",), "last_compact", 30),
    ("restore_check", ("restore_check",), "last_restore_check", 90),
    ("index", ("archives", "stats", "history"), "last_index", 7),
    ("mirror", ("sync", "hydrate"), None, None),
)
LOOKED_AT = 5


def status(session: Session, repository: Repository, *, overdue: bool) -> StatusAnswer:
    return StatusAnswer(
        cells=[_cell(session, repository, *cell, with_overdue=overdue) for cell in CELLS], overdue_available=overdue
    )


def _cell(
    session: Session,
    repository: Repository,
    cell: str,
    kinds: tuple[str, ...],
    column: str | None,
    threshold: int | None,
    *,
    with_overdue: bool,
) -> StatusCell:
    recent = operations.latest_of_kind(session, repository.id, kinds, LOOKED_AT)
    ended = next((one for one in recent if one.completed_at is not None and one.status != Status.SKIPPED), None)
    success: datetime | None = getattr(repository, column) if column else None
    completed_at = ended.completed_at if ended else success
    age = clock.seconds_between(success, clock.now()) if success else None
    overdue = None
    if with_overdue and threshold is not None:
        overdue = age > threshold * 86400 if age is not None else True
    return StatusCell(
        cell=cell,
        status=_word(ended, success),
        completed_at=completed_at,
        age_seconds=int(age) if age is not None else None,
        threshold_days=threshold,
        overdue=overdue,
        running=any(one.status == Status.RUNNING for one in recent),
        source=f"operation:{ended.id}" if ended else ("repository" if success else None),
    )


def _word(ended: Operation | None, success: datetime | None) -> str:
    if ended is not None:
        return ended.status
    return str(Status.COMPLETED) if success else "never"
