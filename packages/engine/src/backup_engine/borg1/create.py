"""``borg create``: create an archive."""

from backup_engine.borg1 import arguments
from backup_engine.detect import EngineUnsupported
from backup_engine.features import Features
from backup_engine.requests import CreateRequest, InvalidRequest, RepositoryLocation

LISTED_STATUSES = "AMCE"


def command(
    features: Features, location: RepositoryLocation, request: CreateRequest, lock_wait: int
) -> tuple[str, ...]:
    refuse_nothing(request)
    flags = arguments.custom_flags(request.custom_flags)
    if not features.files_changed_option and any(flag.startswith("--files-changed") for flag in flags):
        raise EngineUnsupported("The flag --files-changed needs BorgBackup 1.4 or newer.")
    return (
        *("--log-json", "--progress", "--lock-wait", str(lock_wait)),
        *arguments.number("--upload-ratelimit", "The upload limit", request.upload_ratelimit_kib, least=1),
        *("create", "--json"),
        *reading(request),
        f"--checkpoint-interval={arguments.natural('The checkpoint interval', request.checkpoint_interval, least=1)}",
        *storing(request),
        *flags,
        *("--", arguments.new_archive(location, request.archive_name)),
        *sources(request),
    )


def reading(request: CreateRequest) -> tuple[str, ...]:
    return (
        *(("--read-special",) if request.from_pipes else ()),
        *(("--list", f"--filter={LISTED_STATUSES}") if request.list_files else ()),
    )


def storing(request: CreateRequest) -> tuple[str, ...]:
    return (
        *((f"--compression={arguments.compression(request.compression)}",) if request.compression else ()),
        *((f"--comment={_comment(request.comment)}",) if request.comment else ()),
        *(f"--exclude={arguments.pattern(pattern)}" for pattern in request.exclude_patterns),
    )


def sources(request: CreateRequest) -> tuple[str, ...]:
    return tuple(_source(path, request) for path in request.source_paths)


def refuse_nothing(request: CreateRequest) -> None:
    if not request.source_paths:
        raise InvalidRequest("A backup needs at least one source path.")


def _source(path: str, request: CreateRequest) -> str:
    if not request.from_pipes:
        return arguments.source_path(path)
    if not path or "/" in path or "\0" in path or path in (".", ".."):
        raise InvalidRequest(f"{path!r} cannot be the name of a dump.")
    return path


def _comment(text: str) -> str:
    if "\0" in text:
        raise InvalidRequest("The comment contains a NUL character.")
    return arguments.literal(text)
