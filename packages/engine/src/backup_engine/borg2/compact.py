"""``borg compact``: free the space of deleted archives, which cannot be undeleted afterwards."""

from backup_engine.borg2 import arguments
from backup_engine.requests import CompactRequest, RepositoryLocation


def command(location: RepositoryLocation, request: CompactRequest, lock_wait: int) -> tuple[str, ...]:
    return (
        *arguments.common(location, lock_wait, "--progress", "--info"),
        *("compact", "--stats"),
        *arguments.number("--threshold", "The threshold", request.threshold, most=100),
    )
