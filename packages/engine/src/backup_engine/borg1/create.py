"""``borg create``: make an archive."""

from backup_engine.borg1 import arguments
from backup_engine.detect import EngineUnsupported
from backup_engine.features import Features
from backup_engine.requests import CreateRequest, InvalidRequest, RepositoryLocation

LISTED_STATUSES = "AMCE"


def command(
    features: Features, location: RepositoryLocation, request: CreateRequest, lock_wait: int
) -> tuple[str, ...]:
    if not request.source_paths:
        raise InvalidRequest("A backup needs at least one source path.")
    flags = arguments.custom_flags(request.custom_flags)
    if not features.files_changed_option and any(flag.startswith("--files-changed") for flag in flags):
        raise EngineUnsupported("The flag --files-changed needs BorgBackup 1.4 or newer.")
    return (
        *("--log-json", "--progress", "--lock-wait", str(lock_wait)),
        *_upload_limit(request),
        *("create", "--json"),
        *(("--read-special",) if request.from_pipes else ()),
        *(("--list", f"--filter={LISTED_STATUSES}") if request.list_files else ()),
        f"--checkpoint-interval={arguments.natural('The checkpoint interval', request.checkpoint_interval, least=1)}",
        *((f"--compression={arguments.compression(request.compression)}",) if request.compression else ()),
        *((f"--comment={_comment(request.comment)}",) if request.comment else ()),
        *(f"--exclude={arguments.pattern(pattern)}" for pattern in request.exclude_patterns),
        *flags,
        *("--", arguments.new_archive(location, request.archive_name)),
        *(_source(path, request) for path in request.source_paths),
    )


def _upload_limit(request: CreateRequest) -> tuple[str, ...]:
    if request.upload_ratelimit_kib is None:
        return ()
    return (f"--upload-ratelimit={arguments.natural('The upload limit', request.upload_ratelimit_kib, least=1)}",)


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
