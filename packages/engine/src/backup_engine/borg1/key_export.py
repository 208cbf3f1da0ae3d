"""``borg key export``: the repository's key, on standard output."""

from backup_engine.borg1 import arguments
from backup_engine.requests import RepositoryLocation


def command(location: RepositoryLocation, lock_wait: int) -> tuple[str, ...]:
    return (
        *("--log-json", "--lock-wait", str(lock_wait)),
        *("key", "export", "--", arguments.repository(location)),
    )
