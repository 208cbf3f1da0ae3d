"""``borg diff``: differences between two archives, as JSON lines."""

from backup_engine.borg1 import arguments
from backup_engine.requests import DiffRequest, RepositoryLocation


def command(location: RepositoryLocation, request: DiffRequest, lock_wait: int) -> tuple[str, ...]:
    return (
        *("--log-json", "--lock-wait", str(lock_wait)),
        *("diff", "--json-lines"),
        *(("--content-only",) if request.content_only else ()),
        *("--", arguments.archive(location, request.archive)),
        arguments.literal(arguments.existing_archive_name(request.other_archive)),
        *(arguments.archived_path(path) for path in request.paths),
    )
