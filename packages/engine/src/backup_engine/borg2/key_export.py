"""``borg key export``: the repository's key, on standard output."""

from backup_engine.borg2 import arguments
from backup_engine.requests import RepositoryLocation


def command(location: RepositoryLocation, lock_wait: int) -> tuple[str, ...]:
    return (*arguments.common(location, lock_wait), "key", "export")
