"""``borg prune``: mark archives as deleted that a retention policy does not keep."""

from backup_engine import retention
from backup_engine.borg1.prune import check_glob, counts
from backup_engine.borg2 import arguments
from backup_engine.requests import InvalidRequest, PruneRequest, RepositoryLocation


def command(location: RepositoryLocation, request: PruneRequest, lock_wait: int) -> tuple[str, ...]:
    """Raise InvalidRequest for a policy that keeps nothing, EngineUnsupported for a rule that major 2 lacks."""
    if request.policy.keeps_nothing:
        raise InvalidRequest("The retention policy keeps nothing; set at least one keep value.")
    retention.check_within(request.policy, major=2)
    return (
        *arguments.common(location, lock_wait, "--info", *(() if request.dry_run else ("--progress",))),
        *("prune", "--list"),
        *(("--dry-run",) if request.dry_run else ()),
        *counts(request.policy, last="--keep"),
        *((f"--match-archives=sh:{check_glob(request.glob)}",) if request.glob is not None else ()),
    )
