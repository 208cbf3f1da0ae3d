"""Repositories that engine 2 itself keeps on a remote: their paths, and the access that its rclone needs.

A remote may be renamed, so the engine gets a name that never changes: it remembers where each repository was.
"""

import posixpath

from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from backup_engine.requests import RcloneAccess
from holdfast.mirror import address, errors, store
from holdfast.mirror.models import RcloneRemote
from holdfast.mirror.remotes import Remotes
from holdfast.repositories import store as repositories
from holdfast.repositories.location import RemoteAddress
from holdfast.storage.session import Database

PATIENCE = {"RCLONE_CONTIMEOUT": "30s", "RCLONE_TIMEOUT": "5m", "RCLONE_LOW_LEVEL_RETRIES": "5"}


def normal_path(remote: RcloneRemote, given: str) -> str:
    """The path of a repository on a remote in normal form. Raise Unprocessable if it is not a valid one."""
    path = posixpath.normpath(given)
    if path in (".", "/") or ".." in path.split("/"):
        raise errors.bad_path("The path must name a folder on the remote, without .. in it.")
    return path if remote.provider == "sftp" else path.lstrip("/")


def rename(session: Session, remote: RcloneRemote) -> None:
    """Rename a remote in the addresses of its repositories."""
    for repository in store.stored_on(session, remote.id):
        repository.path = address.of(remote.name, address.path_of(repository.path))
        repositories.publish(session, repository.id, "changed")


@frozen
class Engine2Remotes:
    """Gives the engine direct access to remotes."""

    database: Database
    remotes: Remotes

    def remote_address(self, remote_id: int, text: str) -> RemoteAddress:
        """The address of a repository with the access that the engine needs.

        Raise Unprocessable if rclone is not installed, NotFound if the remote is gone, SecretUnreadable if its key is.
        """
        with self.database.reading() as session:
            remote = store.remote(session, remote_id)
        name, access, rclone = f"remote{remote_id}", self.remotes.access(remote), self.remotes.rclone
        variables = {
            **PATIENCE,
            "RCLONE_CONFIG": "",
            "RCLONE_ASK_PASSWORD": "false",
            "RCLONE_BINARY": rclone.rclone_wrapper(),
            **access.variables(name),
        }
        return RemoteAddress(
            address.of(name, address.path_of(text)), RcloneAccess(variables, access.secret_variables(name))
        )
