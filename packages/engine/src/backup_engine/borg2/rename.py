"""``borg rename``: give an archive another name, and with it another id."""

from backup_engine.borg2 import arguments
from backup_engine.requests import RenameRequest, RepositoryLocation


def command(location: RepositoryLocation, request: RenameRequest, lock_wait: int) -> tuple[str, ...]:
    return (
        *arguments.common(location, lock_wait, "--progress"),
        *("rename", "--", arguments.archive(request.archive), arguments.new_archive_name(request.new_name)),
    )
