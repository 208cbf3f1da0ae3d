"""``borg compact``: free the space of deleted archives."""

from backup_engine.borg1 import arguments
from backup_engine.requests import CompactRequest, RepositoryLocation


def command(location: RepositoryLocation, request: CompactRequest, lock_wait: int) -> tuple[str, ...]:
    return (
        *("--log-json", "--progress", "--info", "--lock-wait", str(lock_wait)),
        "compact",
        *arguments.number("--threshold", "The threshold", request.threshold, most=100),
        *("--", arguments.repository(location)),
    )
