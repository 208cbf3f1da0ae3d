"""``borg delete REPOSITORY::ARCHIVE [ARCHIVE...]``: remove archives; the next compact frees their space."""

from backup_engine.borg1 import arguments
from backup_engine.requests import DeleteArchiveRequest, RepositoryLocation


def command(location: RepositoryLocation, request: DeleteArchiveRequest, lock_wait: int) -> tuple[str, ...]:
    return (
        *("--log-json", "--progress", "--info", "--lock-wait", str(lock_wait)),
        *("delete", "--", arguments.archive(location, request.archive)),
        # Unlike the first name, these are taken literally: the engine replaces no placeholders in them.
        *(arguments.existing_archive_name(name) for name in request.others),
    )
