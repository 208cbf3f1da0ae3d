"""``borg check``: verify a repository and its archives; repair only on request."""

from backup_engine.borg1 import arguments
from backup_engine.requests import CheckRequest, InvalidRequest, RepositoryLocation


def command(location: RepositoryLocation, request: CheckRequest, lock_wait: int) -> tuple[str, ...]:
    """Raise InvalidRequest for options that exclude each other."""
    refuse_contradictions(request)
    return (
        *("--log-json", "--progress", "--info", "--lock-wait", str(lock_wait)),
        *("check", *flags(request)),
        *("--", arguments.repository(location)),
    )


def flags(request: CheckRequest) -> tuple[str, ...]:
    return (
        *(("--repository-only",) if request.repository_only or request.max_duration else ()),
        *(("--archives-only",) if request.archives_only else ()),
        *(("--verify-data",) if request.verify_data else ()),
        *(("--repair",) if request.repair else ()),
        *arguments.number("--max-duration", "max_duration", request.max_duration or None),
    )


def refuse_contradictions(request: CheckRequest) -> None:
    segments_only = request.repository_only or bool(request.max_duration)
    if request.max_duration and request.repair:
        raise InvalidRequest("A repair cannot have a time limit; omit max_duration.")
    if segments_only and request.verify_data:
        raise InvalidRequest("verify_data reads the archives; omit max_duration and repository_only.")
    if segments_only and request.archives_only:
        raise InvalidRequest("archives_only cannot be combined with repository_only or max_duration.")
