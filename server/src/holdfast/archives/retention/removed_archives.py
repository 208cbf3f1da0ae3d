"""Which archives a retention policy removes at a given time, for simulations and for losses alike."""

from collections.abc import Sequence
from datetime import datetime

from backup_engine.detect import EngineUnsupported
from backup_engine.requests import InvalidRequest, RetentionPolicy
from backup_engine.retention import aged, check_within
from holdfast.archives.retention import simulate
from holdfast.errors import Unprocessable
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.models import Repository
from holdfast.repositories.policies import policy_of
from holdfast.repositories.schemas import Retention


def restorable(known: Sequence[Archive], series: str | None = None) -> list[Archive]:
    """Return the archives that can be restored, newest first."""
    there = [one for one in known if one.lost_at is None and (series is None or one.series == series)]
    return sorted(there, key=lambda archive: (archive.start, archive.id), reverse=True)


def protected(archives: Sequence[Archive]) -> list[int]:
    """Return the positions of protected archives, which are kept whatever the rules are."""
    return [position for position, archive in enumerate(archives) if archive.protected_at is not None]


def engine_policy(retention: Retention, major: int) -> RetentionPolicy:
    """Return the policy as the engine applies it.

    Raise Unprocessable for a policy that keeps nothing, and for a rule that the engine would refuse.
    """
    policy = policy_of(retention.model_dump())
    try:
        check_within(policy, major=major)
    except (InvalidRequest, EngineUnsupported) as error:
        raise Unprocessable(error.key, f"The engine would refuse it: {error}") from error
    return policy


def removed_now(retention: Retention, repository: Repository, known: Sequence[Archive], now: datetime) -> set[int]:
    """Return the ids of the archives that a prune would remove. Raise Unprocessable."""
    archives, major = restorable(known), repository.engine_version
    policy = engine_policy(retention, major)
    dated = [aged(archive.start) for archive in archives]
    staying = simulate.kept_now(dated, policy, major, now, protected(archives))
    return {archive.id for position, archive in enumerate(archives) if position not in staying}
