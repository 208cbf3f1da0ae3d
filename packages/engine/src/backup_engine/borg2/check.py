"""``borg check``: verify a repository and its archives; repair only on request."""

from backup_engine.borg1.check import refuse_contradictions
from backup_engine.borg2 import arguments
from backup_engine.requests import CheckRequest, RepositoryLocation


def command(location: RepositoryLocation, request: CheckRequest, lock_wait: int) -> tuple[str, ...]:
    """Raise InvalidRequest for options that exclude one another."""
    refuse_contradictions(request)
    return (
        *arguments.common(location, lock_wait, "--progress", "--info"),
        "check",
        *(("--repository-only",) if request.repository_only or request.max_duration else ()),
        *(("--archives-only",) if request.archives_only else ()),
        *(("--verify-data",) if request.verify_data else ()),
        *(("--repair",) if request.repair else ()),
        *_max_duration(request),
    )


def _max_duration(request: CheckRequest) -> tuple[str, ...]:
    if not request.max_duration:
        return ()
    return (f"--max-duration={arguments.natural('max_duration', request.max_duration)}",)
