"""``borg compact``: free the space of deleted archives."""

from backup_engine.borg1 import arguments
from backup_engine.requests import CompactRequest, RepositoryLocation


def command(location: RepositoryLocation, request: CompactRequest, lock_wait: int) -> tuple[str, ...]:
    return (
        *("--log-json", "--progress", "--info", "--lock-wait", str(lock_wait)),
        "compact",
        *_threshold(request),
        *("--", arguments.repository(location)),
    )


def _threshold(request: CompactRequest) -> tuple[str, ...]:
    if request.threshold is None:
        return ()
    return (f"--threshold={arguments.natural('The threshold', request.threshold, most=100)}",)
