"""``borg info``: sizes of a repository, or of one archive."""

from backup_engine.borg1 import arguments
from backup_engine.requests import InfoRequest, RepositoryLocation


def command(location: RepositoryLocation, request: InfoRequest, lock_wait: int) -> tuple[str, ...]:
    return (
        *("--log-json", "--lock-wait", str(lock_wait)),
        *("info", "--json", *(("--glob-archives=*",) if request.every_archive else ()), "--"),
        arguments.repository(location) if request.archive is None else arguments.archive(location, request.archive),
    )
