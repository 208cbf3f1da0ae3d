"""Repositories that are created with a mirror: with `repository_type: rclone`, or locally with `mirror`.

Engine 1 cannot write to a cloud itself. Its repository is a working copy in a folder on this machine, and the mirror
holds all of it. Engine 2 keeps its repository on the remote itself.
"""

import uuid
from pathlib import Path

from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from backup_engine.rclone import trouble_of
from backup_engine.redact import Redactor
from holdfast.access.caller import Caller
from holdfast.errors import NotFound, Unprocessable
from holdfast.mirror import address, engine2_remotes, errors, store
from holdfast.mirror.mirrors import Mirrors, checked_path
from holdfast.mirror.models import RcloneRemote
from holdfast.mirror.rclone import IMPATIENT, NOT_FOUND, place
from holdfast.mirror.rclone_log import RcloneLog
from holdfast.mirror.remotes import Remotes
from holdfast.mirror.schemas import MirrorSettings
from holdfast.operations import queue
from holdfast.repositories import store as repositories
from holdfast.repositories.models import Repository
from holdfast.repositories.place import Place
from holdfast.repositories.schemas import NewMirror, NewRepository, RepositoryPlace
from holdfast.storage.session import Database


@frozen
class MirroredPlaces:
    database: Database
    remotes: Remotes
    mirrors: Mirrors
    folder: Path
    """Folder for working copies created without a path."""

    def with_local_folder(self, wanted: NewRepository) -> NewRepository:
        """Assign a folder and a mirror to the new repository.

        All checks are made before the engine creates anything.
        """
        if wanted.repository_type == "rclone" and wanted.execution_target == "local" and not _is_native(wanted):
            wanted = self._in_the_cloud(wanted)
        if wanted.mirror is None:
            return wanted
        if wanted.execution_target != "local" or not wanted.path.startswith("/"):
            raise errors.not_local()
        with self.database.reading() as session:
            try:
                remote = store.remote(session, wanted.mirror.remote_id)
            except NotFound as error:
                raise Unprocessable(error.key, error.message, **error.params) from error
            settings = MirrorSettings(**wanted.mirror.model_dump())
            path = checked_path(repositories.normal_path(wanted.path), remote, settings)
            store.require_free_place(session, remote.id, path, None)
        return wanted

    def place_on_remote(self, wanted: RepositoryPlace) -> Place | None:
        """Return the place on a remote. Refuse it if it is unreachable or used by another repository or mirror."""
        if not _is_native(wanted):
            return None
        remote, path = self._parts_of_address(wanted)
        if remote.provider == "local":
            raise errors.bad_path("A folder on this machine needs no remote; use its path with repository_type local.")
        path = engine2_remotes.normal_path(remote, path)
        with self.database.reading() as session:
            store.require_free_place(session, remote.id, path, None)
        self._refuse_unreachable(remote, path)
        return Place(address.of(remote.name, path), address.identity(remote.id, path), rclone_remote_id=remote.id)

    def created(self, session: Session, caller: Caller, repository: Repository, wanted: RepositoryPlace) -> None:
        """Store the mirror and its initial sync in the same transaction as the repository."""
        if repository.rclone_remote_id is not None:
            queue.serialise_claims(session)  # one request at a time checks and takes places
            remote = store.remote(session, repository.rclone_remote_id)
            store.require_free_place(session, remote.id, address.path_of(repository.path), repository.id)
        if isinstance(wanted, NewRepository) and wanted.mirror is not None:
            self.mirrors.set(session, caller, repository, MirrorSettings(**wanted.mirror.model_dump()))

    def _in_the_cloud(self, wanted: NewRepository) -> NewRepository:
        if wanted.path.startswith(address.PREFIX):
            mirror = self._mirror_of_address(wanted)
            folder = self.folder.absolute() / uuid.uuid4().hex
            return wanted.model_copy(update={"path": str(folder), "mirror": mirror})
        if wanted.mirror is None:
            raise Unprocessable(
                "mirror.address_missing",
                "A cloud repository needs a path of the form rclone:REMOTE:PATH, or a folder and its mirror.",
            )
        return wanted

    def _mirror_of_address(self, wanted: NewRepository) -> NewMirror:
        remote, path = self._parts_of_address(wanted)
        settings = wanted.mirror.model_dump(exclude={"remote_id", "path"}) if wanted.mirror else {}
        return NewMirror(remote_id=remote.id, path=path, **settings)

    def _parts_of_address(self, wanted: RepositoryPlace) -> tuple[RcloneRemote, str]:
        parts = address.split(wanted.path)
        with self.database.reading() as session:
            remote = store.remote_of_name(session, parts[0]) if parts else None
        if remote is None or parts is None:
            raise Unprocessable(
                "mirror.bad_address",
                "The address must be rclone:REMOTE:PATH with the name of a remote; GET /api/rclone/remotes lists them.",
            )
        return remote, parts[1]

    def _refuse_unreachable(self, remote: RcloneRemote, path: str) -> None:
        """Raise Unprocessable if the remote cannot be reached; the engine would report it only late and at length."""
        access = self.remotes.access(remote)
        answer = self.remotes.rclone.ask(("lsf", "--max-depth", "1", place(path), *IMPATIENT), access)
        if answer.code not in (0, NOT_FOUND):
            rclone_log = RcloneLog(Redactor(access.secrets.values())).read_all(answer.stderr)
            trouble = trouble_of(rclone_log.reasons)
            raise Unprocessable(trouble.key, trouble.sentence)


def _is_native(wanted: RepositoryPlace) -> bool:
    return (wanted.repository_type, wanted.engine_version, wanted.execution_target) == (
        "rclone",
        2,
        "local",
    ) and wanted.path.startswith(address.PREFIX)
