"""``borg create``: make an archive.

Archives of one name are a series; the cache of known files is kept by that name.
"""

from backup_engine.borg2 import arguments
from backup_engine.detect import EngineUnsupported
from backup_engine.requests import CreateRequest, InvalidRequest, RepositoryLocation

LISTED_STATUSES = "AMCE"


def command(location: RepositoryLocation, request: CreateRequest, lock_wait: int) -> tuple[str, ...]:
    """Raise InvalidRequest for values that the engine would refuse, EngineUnsupported for a limited upload."""
    if not request.source_paths:
        raise InvalidRequest("A backup needs at least one source path.")
    if request.upload_ratelimit_kib is not None:
        raise EngineUnsupported("BorgBackup 2 cannot limit the upload rate; leave upload_ratelimit_kib empty.")
    return (
        *arguments.common(location, lock_wait, "--progress"),
        *("create", "--json"),
        *(("--read-special",) if request.from_pipes else ()),
        *(("--list", f"--filter={LISTED_STATUSES}") if request.list_files else ()),
        *((f"--compression={arguments.compression(request.compression)}",) if request.compression else ()),
        *((f"--comment={_comment(request.comment)}",) if request.comment else ()),
        *(f"--exclude={arguments.pattern(pattern)}" for pattern in request.exclude_patterns),
        *arguments.custom_flags(request.custom_flags),
        *("--", arguments.new_archive(request.archive_name)),
        *(_source(path, request) for path in request.source_paths),
    )


def _source(path: str, request: CreateRequest) -> str:
    if not request.from_pipes:
        return arguments.source_path(path)
    if not path or "/" in path or "\0" in path or path in (".", ".."):
        raise InvalidRequest(f"{path!r} cannot be the name of a dump.")
    return path


def _comment(text: str) -> str:
    if "\0" in text:
        raise InvalidRequest("The comment holds a NUL character.")
    return arguments.literal(text)
