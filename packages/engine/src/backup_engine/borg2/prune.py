"""``borg prune``: mark the archives as deleted that a retention policy does not keep."""

from backup_engine import retention
from backup_engine.borg1.prune import check_glob
from backup_engine.borg2 import arguments
from backup_engine.requests import InvalidRequest, PruneRequest, RepositoryLocation, RetentionPolicy


def command(location: RepositoryLocation, request: PruneRequest, lock_wait: int) -> tuple[str, ...]:
    """Raise InvalidRequest for a policy that keeps nothing, EngineUnsupported for a rule that major 2 does not know."""
    if request.policy.keeps_nothing:
        raise InvalidRequest("The retention policy keeps nothing; give at least one keep value.")
    retention.check_within(request.policy, major=2)
    return (
        *arguments.common(location, lock_wait, "--info", *(() if request.dry_run else ("--progress",))),
        *("prune", "--list"),
        *(("--dry-run",) if request.dry_run else ()),
        *_counts(request.policy),
        *((f"--match-archives=sh:{check_glob(request.glob)}",) if request.glob is not None else ()),
    )


def _counts(policy: RetentionPolicy) -> tuple[str, ...]:
    rules = (
        ("--keep", "keep_last", policy.keep_last),
        ("--keep-minutely", "keep_minutely", policy.keep_minutely),
        ("--keep-hourly", "keep_hourly", policy.keep_hourly),
        ("--keep-daily", "keep_daily", policy.keep_daily),
        ("--keep-weekly", "keep_weekly", policy.keep_weekly),
        ("--keep-monthly", "keep_monthly", policy.keep_monthly),
        ("--keep-3monthly", "keep_quarterly", policy.keep_quarterly),
        ("--keep-yearly", "keep_yearly", policy.keep_yearly),
    )
    return tuple(f"{option}={arguments.natural(name, count)}" for option, name, count in rules if count)
