"""``borg undelete``: bring back an archive that was deleted since the last compact."""

from backup_engine.borg2 import arguments
from backup_engine.requests import RepositoryLocation, UndeleteArchiveRequest


def command(location: RepositoryLocation, request: UndeleteArchiveRequest, lock_wait: int) -> tuple[str, ...]:
    return (
        *arguments.common(location, lock_wait, "--info"),
        *("undelete", "--", arguments.archive(request.archive)),
    )
