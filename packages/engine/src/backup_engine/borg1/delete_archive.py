"""``borg delete REPOSITORY::ARCHIVE [ARCHIVE...]``: remove archives; their space comes back at the next compact."""

from backup_engine.borg1 import arguments
from backup_engine.requests import DeleteArchiveRequest, RepositoryLocation


def command(location: RepositoryLocation, request: DeleteArchiveRequest, lock_wait: int) -> tuple[str, ...]:
    return (
        *("--log-json", "--progress", "--info", "--lock-wait", str(lock_wait)),
        *("delete", "--", arguments.archive(location, request.archive)),
        # Unlike the first, these are taken as they are: the engine replaces no placeholders in them.
        *(arguments.existing_archive_name(name) for name in request.others),
    )
