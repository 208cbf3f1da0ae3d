"""Repositories that are created with a mirror: `repository_type: rclone`, or `mirror` beside a local one.

Engine 1 cannot write to a cloud itself. Its repository lies in a folder of this machine, the working copy, and the mirror
holds all of it.
"""

import uuid
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy.orm import Session

from holdfast.access.caller import Caller
from holdfast.errors import NotFound, Unprocessable
from holdfast.mirror import errors, store
from holdfast.mirror.arrange import Mirrors, checked_path
from holdfast.mirror.schemas import MirrorSettings
from holdfast.repositories import store as repositories
from holdfast.repositories.models import Repository
from holdfast.repositories.schemas import NewMirror, NewRepository
from holdfast.storage.session import Database

ADDRESS = "rclone:"


@dataclass(frozen=True, slots=True)
class MirroredPlaces:
    database: Database
    mirrors: Mirrors
    folder: Path
    """Where working copies lie that were given no path."""

    def placed(self, wanted: NewRepository) -> NewRepository:
        """Give it a folder and its mirror. All that can be refused is, before the engine makes anything."""
        if wanted.repository_type == "rclone" and wanted.engine_version == 1 and wanted.execution_target == "local":
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
            store.place_is_free(session, remote.id, path, None)
        return wanted

    def created(self, session: Session, caller: Caller, repository: Repository, wanted: NewRepository) -> None:
        """The mirror and its initial sync are stored with the repository, or not at all."""
        if wanted.mirror is not None:
            self.mirrors.set(session, caller, repository, MirrorSettings(**wanted.mirror.model_dump()))

    def _in_the_cloud(self, wanted: NewRepository) -> NewRepository:
        if wanted.path.startswith(ADDRESS):
            mirror = self._mirror_of_address(wanted)
            folder = self.folder.absolute() / uuid.uuid4().hex
            return wanted.model_copy(update={"path": str(folder), "mirror": mirror})
        if wanted.mirror is None:
            raise Unprocessable(
                "mirror.address_missing",
                "A repository in the cloud needs a path of the form rclone:REMOTE:PATH, or a folder and its mirror.",
            )
        return wanted

    def _mirror_of_address(self, wanted: NewRepository) -> NewMirror:
        name, colon, path = wanted.path.removeprefix(ADDRESS).partition(":")
        with self.database.reading() as session:
            remote = store.remote_of_name(session, name)
        if remote is None or not colon or not path:
            raise Unprocessable(
                "mirror.bad_address",
                "The address must be rclone:REMOTE:PATH with the name of a remote; GET /api/rclone/remotes lists them.",
            )
        settings = wanted.mirror.model_dump(exclude={"remote_id", "path"}) if wanted.mirror else {}
        return NewMirror(remote_id=remote.id, path=path, **settings)
