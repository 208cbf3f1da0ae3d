"""``borg diff``: differences between two archives, one JSON object per line."""

from backup_engine.borg2 import arguments
from backup_engine.requests import DiffRequest, RepositoryLocation


def command(location: RepositoryLocation, request: DiffRequest, lock_wait: int) -> tuple[str, ...]:
    return (
        *arguments.common(location, lock_wait),
        *("diff", "--json-lines"),
        *(("--content-only",) if request.content_only else ()),
        *("--", arguments.archive(request.archive), arguments.archive(request.other_archive)),
        *(arguments.archived_path(path) for path in request.paths),
    )
