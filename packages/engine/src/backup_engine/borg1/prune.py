"""``borg prune``: remove the archives that a retention policy does not keep."""

from backup_engine import retention
from backup_engine.borg1 import arguments
from backup_engine.detect import EngineUnsupported
from backup_engine.features import Features
from backup_engine.requests import InvalidRequest, PruneRequest, RepositoryLocation, RetentionPolicy


def command(features: Features, location: RepositoryLocation, request: PruneRequest, lock_wait: int) -> tuple[str, ...]:
    """Raise InvalidRequest for a policy that keeps nothing, EngineUnsupported for a rule that this version lacks."""
    if request.policy.keeps_nothing:
        raise InvalidRequest("The retention policy keeps nothing; set at least one keep value.")
    if request.policy.keep_quarterly and not features.keep_quarterly:
        raise EngineUnsupported("keep_quarterly needs BorgBackup 1.4.1 or newer.")
    return (
        *("--log-json", "--info", "--lock-wait", str(lock_wait)),
        *(() if request.dry_run else ("--progress",)),
        *("prune", "--list"),
        *(("--dry-run",) if request.dry_run else ()),
        *_within(request.policy),
        *counts(request.policy, last="--keep-last"),
        *((f"--glob-archives={check_glob(request.glob)}",) if request.glob is not None else ()),
        *("--", arguments.repository(location)),
    )


def _within(policy: RetentionPolicy) -> tuple[str, ...]:
    if not policy.keep_within:
        return ()
    retention.check_within(policy, major=1)
    return (f"--keep-within={policy.keep_within}",)


def counts(policy: RetentionPolicy, *, last: str) -> tuple[str, ...]:
    """A policy's options. The majors differ only in the name of the option for `keep_last`."""
    rules = (
        (last, "keep_last", policy.keep_last),
        ("--keep-minutely", "keep_minutely", policy.keep_minutely),
        ("--keep-hourly", "keep_hourly", policy.keep_hourly),
        ("--keep-daily", "keep_daily", policy.keep_daily),
        ("--keep-weekly", "keep_weekly", policy.keep_weekly),
        ("--keep-monthly", "keep_monthly", policy.keep_monthly),
        ("--keep-3monthly", "keep_quarterly", policy.keep_quarterly),
        ("--keep-yearly", "keep_yearly", policy.keep_yearly),
    )
    return tuple(f"{option}={arguments.natural(name, count)}" for option, name, count in rules if count)


def check_glob(glob: str) -> str:
    if not glob or arguments.CONTROL_CHARACTER.search(glob):
        raise InvalidRequest("The archive glob is empty or contains a control character.")
    return arguments.literal(glob)
