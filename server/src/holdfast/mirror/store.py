"""All database statements for remotes and mirrors."""

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from holdfast.errors import Conflict, NotFound
from holdfast.mirror import address, errors
from holdfast.mirror.models import RcloneRemote, RepositoryMirror
from holdfast.operations import pages
from holdfast.operations.end_time import end_of_work
from holdfast.operations.models import Operation
from holdfast.operations.status import ACTIVE, Status
from holdfast.repositories import store as repositories
from holdfast.repositories.models import Repository
from holdfast.storage.rows import require_row

SYNC = "sync"
HYDRATE = "hydrate"


def remote(session: Session, remote_id: int) -> RcloneRemote:
    """The remote with this id. Raise NotFound."""
    return require_row(session, RcloneRemote, remote_id, errors.unknown_remote)


def remote_of_name(session: Session, name: str) -> RcloneRemote | None:
    return session.scalars(select(RcloneRemote).where(RcloneRemote.name == name)).first()


def all_remotes(session: Session) -> list[RcloneRemote]:
    return list(session.scalars(select(RcloneRemote).order_by(RcloneRemote.name)))


def require_unused_name(session: Session, name: str, but: int | None = None) -> None:
    """Raise Conflict if another remote has this name."""
    found = remote_of_name(session, name)
    if found is not None and found.id != but:
        raise Conflict("rclone.name_taken", "A remote with this name already exists.")


def users_of(session: Session, remote_id: int) -> list[int]:
    """The repositories that are mirrored to a remote or stored on it."""
    statement = select(RepositoryMirror.repository_id).where(RepositoryMirror.remote_id == remote_id)
    return sorted({*session.scalars(statement), *(repository.id for repository in stored_on(session, remote_id))})


def stored_on(session: Session, remote_id: int) -> list[Repository]:
    """The repositories that the engine itself keeps on a remote."""
    return list(session.scalars(select(Repository).where(Repository.rclone_remote_id == remote_id)))


def mirror_of(session: Session, repository_id: int) -> RepositoryMirror | None:
    statement = select(RepositoryMirror).where(RepositoryMirror.repository_id == repository_id)
    return session.scalars(statement).first()


def require_mirror(session: Session, repository_id: int) -> RepositoryMirror:
    """The mirror of a repository. Raise NotFound."""
    found = mirror_of(session, repository_id)
    if found is None:
        raise NotFound(
            "mirror.not_configured",
            "The repository has no mirror; PUT its mirror settings first.",
            repository_id=repository_id,
        )
    return found


def require_free_place(session: Session, remote_id: int, path: str, but: int | None) -> None:
    """Raise Conflict if another repository uses this place, or one above or below it: a sync deletes other files."""
    mirrors = session.scalars(select(RepositoryMirror).where(RepositoryMirror.remote_id == remote_id))
    used = [(mirror.repository_id, mirror.path) for mirror in mirrors]
    used += [(repository.id, address.path_of(repository.path)) for repository in stored_on(session, remote_id)]
    for repository_id, other in used:
        if repository_id != but and (_is_within(other, path) or _is_within(path, other)):
            raise Conflict(
                "mirror.path_taken",
                "Another repository or mirror is stored at, above or below this location; choose another path.",
                repository_id=repository_id,
            )


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _comparison(now: datetime, verified_by: str | None) -> dict[str, Any]:
    return {"verified_at": now, "verified_by": verified_by} if verified_by else {}


def note_sync(session: Session, mirror: RepositoryMirror, mirrored: dict[str, Any], *, verified_by: str | None) -> None:
    """Store the result of a complete sync, unless the mirror was given another place in the meantime."""
    now = end_of_work(session)
    values: dict[str, Any] = {"mirrored": mirrored, "last_sync_at": now, **_comparison(now, verified_by)}
    noted = session.execute(
        update(RepositoryMirror)
        .where(
            RepositoryMirror.id == mirror.id,
            RepositoryMirror.remote_id == mirror.remote_id,
            RepositoryMirror.path == mirror.path,
        )
        .values(**values)
        .returning(RepositoryMirror.id)
    ).all()
    if noted:
        repositories.note_evidence(session, mirror.repository_id, last_mirror=now)


def forget_evidence(session: Session, repository_id: int) -> None:
    """Clear the state of a mirror that is gone or gets another place."""
    session.execute(update(Repository).where(Repository.id == repository_id).values(last_mirror=None))
    repositories.publish(session, repository_id, "evidence")


def waiting_sync(session: Session, repository_id: int) -> int | None:
    """A waiting sync that depends on nothing that may fail. It will mirror everything present when it begins."""
    statement = select(Operation.id).where(
        Operation.repository_id == repository_id,
        Operation.kind == SYNC,
        Operation.status == Status.PENDING,
        Operation.started_at.is_(None),
        Operation.depends_on_id.is_(None),
    )
    return session.scalars(statement.limit(1)).first()


def is_planned_in(session: Session, repository_id: int, run_id: str) -> bool:
    """Whether this run has a scheduled sync of its own."""
    statement = select(Operation.id).where(
        Operation.run_id == run_id,
        Operation.repository_id == repository_id,
        Operation.kind == SYNC,
        Operation.schedule_id.is_not(None),
    )
    return session.scalars(statement.limit(1)).first() is not None


def take_turn(session: Session, repository_id: int, operation_id: int) -> bool:
    """Let this sync write to the mirror. Return False while another sync does, or an earlier one is waiting."""
    statement = select(RepositoryMirror).where(RepositoryMirror.repository_id == repository_id).with_for_update()
    mirror = session.scalars(statement).first()
    if mirror is None:
        return True
    if mirror.turn_operation_id == operation_id:
        return True
    holder = pages.get(session, mirror.turn_operation_id or 0)
    if holder is not None and holder.status == Status.RUNNING:
        return False
    running = (Operation.repository_id == repository_id, Operation.kind == SYNC, Operation.status == Status.RUNNING)
    if session.scalar(select(Operation.id).where(*running, Operation.id < operation_id).limit(1)) is not None:
        return False
    mirror.turn_operation_id = operation_id
    return True


def due(session: Session, now: datetime) -> list[Repository]:
    """Repositories whose interval has passed since their last sync was requested, with no sync waiting or running."""
    statement = select(RepositoryMirror).where(
        RepositoryMirror.mode == "interval", RepositoryMirror.interval_minutes.is_not(None)
    )
    found = []
    for mirror in session.scalars(statement):
        latest = pages.latest_of_kind(session, mirror.repository_id, (SYNC,), 1)
        if latest and Status(latest[0].status) in ACTIVE:
            continue
        asked_at = max(mirror.updated_at, latest[0].created_at) if latest else mirror.updated_at
        repository = repositories.get(session, mirror.repository_id)
        if repository is not None and now - asked_at >= timedelta(minutes=mirror.interval_minutes or 0):
            found.append(repository)
    return found
