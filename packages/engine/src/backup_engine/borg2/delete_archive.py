"""``borg delete``: mark an archive as deleted. Until the next compact it can be undeleted and still takes space."""

from backup_engine.borg2 import arguments
from backup_engine.requests import DeleteArchiveRequest, InvalidRequest, RepositoryLocation


def command(location: RepositoryLocation, request: DeleteArchiveRequest, lock_wait: int) -> tuple[str, ...]:
    """Raise InvalidRequest for more than one archive: the engine cannot take several ids."""
    if request.others:
        raise InvalidRequest("BorgBackup 2 deletes one archive at a time.")
    return (
        *arguments.common(location, lock_wait, "--progress", "--info"),
        *("delete", "--", arguments.archive(request.archive)),
    )
