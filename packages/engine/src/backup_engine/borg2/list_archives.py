"""``borg repo-list``: list the archives, or the deleted ones that no compact has removed yet."""

from backup_engine.borg2 import arguments
from backup_engine.requests import ListArchivesRequest, RepositoryLocation

NAME_KEYS = "{archive}{id}{start}"
EXTRA_KEYS = "{archive}{id}{comment}{hostname}{username}{start}{end}"


def command(location: RepositoryLocation, request: ListArchivesRequest, lock_wait: int) -> tuple[str, ...]:
    return (
        *arguments.common(location, lock_wait),
        *("repo-list", "--json", f"--format={NAME_KEYS if request.names_only else EXTRA_KEYS}"),
        *((f"--last={arguments.natural('last', request.last, least=1)}",) if request.last is not None else ()),
        *(("--deleted",) if request.deleted else ()),
    )
