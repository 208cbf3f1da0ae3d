"""``borg break-lock``: remove stale locks. The caller must be certain that no process is using them."""

from backup_engine.borg2 import arguments
from backup_engine.requests import RepositoryLocation


def command(location: RepositoryLocation, lock_wait: int) -> tuple[str, ...]:
    return (*arguments.common(location, lock_wait), "break-lock")
