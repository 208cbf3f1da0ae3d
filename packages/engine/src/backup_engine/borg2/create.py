"""``borg create``: create an archive.

Archives of one name form a series; the engine keeps its files cache by that name.
"""

from backup_engine.borg1.create import reading, refuse_nothing, sources, storing
from backup_engine.borg2 import arguments
from backup_engine.detect import EngineUnsupported
from backup_engine.requests import CreateRequest, RepositoryLocation


def command(location: RepositoryLocation, request: CreateRequest, lock_wait: int) -> tuple[str, ...]:
    """Raise InvalidRequest for values that the engine would reject, EngineUnsupported for an upload limit."""
    refuse_nothing(request)
    if request.upload_ratelimit_kib is not None:
        raise EngineUnsupported("BorgBackup 2 cannot limit the upload rate; leave upload_ratelimit_kib empty.")
    return (
        *arguments.common(location, lock_wait, "--progress"),
        *("create", "--json"),
        *reading(request),
        *storing(request),
        *arguments.custom_flags(request.custom_flags),
        *("--", arguments.new_archive(request.archive_name)),
        *sources(request),
    )
