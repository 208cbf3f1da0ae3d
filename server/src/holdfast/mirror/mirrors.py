"""Mirrors of repositories: their settings, and the syncs requested by routes, backups and ticks."""

import posixpath
from pathlib import Path

from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from holdfast.access import audit
from holdfast.access.caller import Caller
from holdfast.access.roles import Role
from holdfast.api.parts import Part
from holdfast.errors import Conflict, Unprocessable
from holdfast.kit import clock
from holdfast.mirror import errors, store
from holdfast.mirror.hydrate import check_destination
from holdfast.mirror.models import RcloneRemote, RepositoryMirror
from holdfast.mirror.schemas import HydrateParams, MirrorSettings, SyncParams
from holdfast.operations import pages, queue, transitions
from holdfast.operations.kinds import Kind
from holdfast.operations.models import Operation
from holdfast.operations.queue import Origin
from holdfast.operations.retrying import origin_of
from holdfast.operations.status import SUCCEEDED, Status, Trigger
from holdfast.repositories import jobs
from holdfast.repositories import store as repositories
from holdfast.repositories.models import Repository
from holdfast.storage.session import Database

BACKUP = "backup"


@frozen
class Mirrors:
    sync: Kind
    hydrate: Kind
    data_dir: Path

    # --- settings -------------------------------------------------------------------------------------------------

    def set(
        self, session: Session, caller: Caller, repository: Repository, wanted: MirrorSettings
    ) -> tuple[RepositoryMirror, int | None]:
        """Store the settings. Return the mirror and, if it is new or at a new place, the id of its initial sync."""
        queue.serialise_claims(session)  # one request at a time checks and takes places
        remote = store.remote(session, wanted.remote_id)
        if repository.execution_target != "local" or not repository.path.startswith("/"):
            raise errors.not_local()
        path = checked_path(repository.path, remote, wanted)
        store.require_free_place(session, remote.id, path, repository.id)
        mirror = store.mirror_of(session, repository.id)
        is_new = mirror is None or (mirror.remote_id, mirror.path) != (remote.id, path)
        now = clock.now()
        if mirror is None:
            mirror = RepositoryMirror(repository_id=repository.id, created_at=now)
            session.add(mirror)
        for name, value in wanted.model_dump(exclude={"path"}).items():
            setattr(mirror, name, value)
        mirror.path, mirror.updated_at = path, now
        if is_new:
            mirror.mirrored = mirror.last_sync_at = mirror.verified_at = None
            store.forget_evidence(session, repository.id)
        session.flush()
        _record(session, caller, "mirror.set", repository, {"remote": remote.name, "path": path, "mode": mirror.mode})
        origin = Origin(Trigger.INITIAL, caller.user_id, caller.username)
        return mirror, self._enqueue(session, repository, origin) if is_new else None

    def remove(self, session: Session, caller: Caller, repository: Repository) -> None:
        """Remove the settings; the data on the remote is kept. Raise Conflict while a sync or hydrate is running."""
        mirror = store.require_mirror(session, repository.id)
        queue.serialise_claims(session)
        for operation in pages.latest_of_kind(session, repository.id, (store.SYNC, store.HYDRATE), 100):
            if operation.status == Status.RUNNING:
                raise Conflict(
                    "mirror.operation_running",
                    "A sync or hydrate of this repository is running; wait for it or cancel it first.",
                    operation_id=operation.id,
                )
        transitions.cancel_pending_of_repository(session, repository.id, categories=("mirror",))
        session.delete(mirror)
        store.forget_evidence(session, repository.id)
        _record(session, caller, "mirror.removed", repository, {})

    # --- work -------------------------------------------------------------------------------------------------------

    def start_sync(
        self,
        session: Session,
        caller: Caller,
        repository_id: int,
        *,
        override_sanity: bool,
        origin: Origin | None = None,
    ) -> Operation:
        role = Role.ADMIN if override_sanity else Role.OPERATOR
        repository = repositories.require(session, caller, repository_id, role)
        store.require_mirror(session, repository.id)
        params = SyncParams(override_sanity=override_sanity)
        details = {"override_sanity": override_sanity}
        return jobs.start(session, caller, self.sync, repository, params, origin=origin, details=details)

    def retry_sync(self, session: Session, caller: Caller, _kind: Kind, failed: Operation) -> Operation:
        override = SyncParams.model_validate(failed.params).override_sanity
        origin = origin_of(caller, failed)
        return self.start_sync(session, caller, failed.repository_id or 0, override_sanity=override, origin=origin)

    def retry_hydrate(self, session: Session, caller: Caller, _kind: Kind, failed: Operation) -> Operation:
        destination = HydrateParams.model_validate(failed.params).destination
        origin = origin_of(caller, failed)
        return self.start_hydrate(session, caller, failed.repository_id or 0, destination, origin)

    def start_hydrate(
        self, session: Session, caller: Caller, repository_id: int, destination: str, origin: Origin | None = None
    ) -> Operation:
        """Queue a hydrate. Raise Unprocessable if the destination may not be filled."""
        repository = repositories.require(session, caller, repository_id, Role.ADMIN)
        store.require_mirror(session, repository.id)
        folder = str(check_destination(destination, repository.uuid))
        self._refuse_own_places(session, Path(folder))
        params = HydrateParams(destination=folder)
        details = {"destination": folder}
        return jobs.start(session, caller, self.hydrate, repository, params, origin=origin, details=details)

    def _refuse_own_places(self, session: Session, folder: Path) -> None:
        """Refuse to write into a registered repository or the service's own data."""
        resolved = folder.resolve()
        if self.data_dir.resolve() in (resolved, *resolved.parents):
            raise errors.bad_destination("The destination is in the service's data folder; choose another folder.")
        for known in repositories.visible(session, None):
            if known.execution_target != "agent" and Path(known.identity) in (resolved, *resolved.parents):
                raise errors.bad_destination("The destination is in a registered repository; choose another folder.")

    def after_archives_changed(self, session: Session, changed: Operation) -> None:
        """After each successful backup, queue a sync if the mirror's mode is `after_backup`."""
        if changed.kind != BACKUP or Status(changed.status) not in SUCCEEDED:
            return
        repository = repositories.get(session, changed.repository_id or 0)
        mirror = store.mirror_of(session, repository.id) if repository else None
        if repository is None or mirror is None or mirror.mode != "after_backup":
            return
        if store.is_planned_in(session, repository.id, changed.run_id):
            return  # the run itself queues the sync after its check
        origin = Origin(
            Trigger.FOLLOWUP, changed.triggered_by_id, changed.triggered_by, changed.run_id, parent_id=changed.id
        )
        self._enqueue(session, repository, origin)

    def enqueue_due(self, database: Database) -> int:
        """Queue the syncs whose interval has passed; return their number. Several processes queue each only once."""
        with database.reading() as session:
            if not store.due(session, clock.now()):
                return 0
        with database.writing() as session:
            queue.serialise_claims(session)
            queued = [
                self._enqueue(session, repository, Origin(Trigger.SCHEDULE))
                for repository in store.due(session, clock.now())
            ]
        return len(queued)

    def _enqueue(self, session: Session, repository: Repository, origin: Origin) -> int:
        """The id of a new sync, or of a waiting one, which will mirror everything present when it begins."""
        if (waiting := store.waiting_sync(session, repository.id)) is not None:
            return waiting
        params, subject = SyncParams().model_dump(mode="json"), repositories.subject(repository)
        return queue.enqueue(session, self.sync, params, origin, subject=subject).id


MIRRORS = Part[Mirrors]("mirrors")


def checked_path(repository_path: str, remote: RcloneRemote, wanted: MirrorSettings) -> str:
    """The mirror's path in normal form. Raise Unprocessable if it is not a valid one."""
    if wanted.mode == "interval" and wanted.interval_minutes is None:
        raise Unprocessable("mirror.interval_missing", "The mode interval requires interval_minutes.")
    path = posixpath.normpath(wanted.path)
    if path in (".", "/") or ".." in path.split("/") or not path.isprintable():
        raise errors.bad_path("The path must name a folder on the remote, without .. in it.")
    if remote.provider != "local":
        return path.lstrip("/") if remote.provider != "sftp" else path
    if not path.startswith("/"):
        raise errors.bad_path("The path of a local remote must be absolute.")
    mirrored, own = Path(path).resolve(), Path(repository_path).resolve()
    if mirrored == own or own in mirrored.parents or mirrored in own.parents:
        raise errors.bad_path("The mirror cannot be inside the repository, nor the repository inside the mirror.")
    return path


def _record(session: Session, caller: Caller, action: str, repository: Repository, details: dict[str, str]) -> None:
    audit.note(session, caller, action, "repository", repository.id, {"name": repository.name, **details})
