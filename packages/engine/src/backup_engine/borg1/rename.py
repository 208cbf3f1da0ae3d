"""``borg rename``: give an archive another name, and with it another id."""

from backup_engine.borg1 import arguments
from backup_engine.requests import RenameRequest, RepositoryLocation


def command(location: RepositoryLocation, request: RenameRequest, lock_wait: int) -> tuple[str, ...]:
    return (
        *("--log-json", "--progress", "--lock-wait", str(lock_wait)),
        *("rename", "--", arguments.archive(location, request.archive)),
        arguments.new_archive_name(request.new_name),
    )
