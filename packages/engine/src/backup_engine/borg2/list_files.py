"""``borg list``: list the files of an archive, one JSON object per line. Only this form preserves every byte of a name
(`path_b64`).
"""

from backup_engine.borg2 import arguments
from backup_engine.requests import ListFilesRequest, RepositoryLocation

ADDED_KEYS = "{size}{mtime}{fingerprint}"
"""``fingerprint`` identifies the content: files with the same chunks have the same fingerprint."""


def command(location: RepositoryLocation, request: ListFilesRequest, lock_wait: int) -> tuple[str, ...]:
    return (
        *arguments.common(location, lock_wait),
        *("list", "--json-lines", f"--format={ADDED_KEYS}"),
        *(f"--exclude={arguments.archived_path(path)}" for path in request.excluded_trees),
        *(f"--exclude={arguments.pattern(pattern)}" for pattern in request.excludes),
        *("--", arguments.archive(request.archive)),
        *(arguments.archived_path(path) for path in request.paths),
    )
