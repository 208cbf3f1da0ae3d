"""``borg check``: verify a repository and its archives; repair only on request."""

from backup_engine.borg1.check import flags, refuse_contradictions
from backup_engine.borg2 import arguments
from backup_engine.requests import CheckRequest, RepositoryLocation


def command(location: RepositoryLocation, request: CheckRequest, lock_wait: int) -> tuple[str, ...]:
    """Raise InvalidRequest for options that exclude each other."""
    refuse_contradictions(request)
    return (*arguments.common(location, lock_wait, "--progress", "--info"), "check", *flags(request))
