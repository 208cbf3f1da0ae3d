"""What a retention policy leaves over time: run forward over the archives there are and the backups to come."""

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import UTC, date, datetime, time, timedelta
from itertools import groupby, pairwise
from typing import Literal

from backup_engine.requests import RetentionPolicy
from backup_engine.retention import PROTECTED, Aged, aged, kept, span_of
from holdfast.kit.frozen import frozen

DAY = timedelta(days=1)
MOST_LOOKS = 4_000_000
"""How often the rules may look at an archive in all: about two seconds."""
Band = Literal["day", "week", "month", "quarter", "year", "older"]
BANDS: tuple[tuple[Band, int | None], ...] = (
    ("day", 1),
    ("week", 7),
    ("month", 31),
    ("quarter", 92),
    ("year", 366),
    ("older", None),
)


class TooMuch(Exception):
    """The simulation would take too long."""


@frozen
class KeptOn:
    """What there is at the end of a day."""

    positions: tuple[int, ...]
    """Of the archives of today."""
    coming: tuple[datetime, ...]
    """Backups that were still to come, oldest first."""


@frozen
class Ahead:
    """What a policy leaves in the end, and how many restore points there are on the way."""

    counts: tuple[tuple[date, int], ...]
    """At the end of each day."""
    restore_points: tuple[datetime, ...]
    """Newest first, on the last day."""
    kept_on: dict[date, KeptOn]
    """On the watched days."""

    @property
    def days(self) -> list[tuple[date, int]]:
        """The days that have restore points in the end, newest first, and how many."""
        return list(Counter(start.date() for start in self.restore_points).items())


def kept_now(
    archives: Sequence[Aged], policy: RetentionPolicy, major: int, now: datetime, spared: Collection[int] = ()
) -> dict[int, str]:
    """The positions of those archives, given newest first, that a prune would keep at a moment.

    `spared` are the positions of protected archives: the rules count them like others, and they stay.
    """
    by_rules = kept(archives, policy, major=major, within_since=_since(policy, now))
    return {**dict.fromkeys(spared, PROTECTED), **by_rules}


def _since(policy: RetentionPolicy, now: datetime) -> datetime | None:
    if not policy.keep_within:
        return None
    try:
        return now - span_of(policy.keep_within)
    except OverflowError:  # before the first year
        return datetime.min.replace(tzinfo=UTC)


def ahead(
    archives: Sequence[Aged],
    coming: Sequence[datetime],
    policy: RetentionPolicy,
    *,
    major: int,
    now: datetime,
    until: date,
    watched: Collection[date] = (),
    spared: Collection[int] = (),
) -> Ahead:
    """Archives newest first, backups to come oldest first. Each day ends with a prune if a backup was made.

    Raise TooMuch.
    """
    there = list(archives)
    made = {day: list(starts) for day, starts in groupby(coming, key=lambda start: start.astimezone(UTC).date())}
    rules = sum(bool(getattr(policy, name)) for name in policy.__slots__)
    positions = {id(archive): position for position, archive in enumerate(archives)}
    always = {id(archives[position]) for position in spared}
    counts, looks, kept_on = [], 0, {}
    for number in range((until - now.date()).days + 1):
        day = now.date() + number * DAY
        if starts := made.get(day):
            there = sorted([*map(aged, starts), *there], key=lambda archive: archive.start, reverse=True)
            looks += len(there) * rules
            if looks > MOST_LOOKS:
                raise TooMuch
            here = [position for position, archive in enumerate(there) if id(archive) in always]
            staying = kept_now(there, policy, major, datetime.combine(day + DAY, time(), UTC), here)
            there = [archive for position, archive in enumerate(there) if position in staying]
        counts.append((day, len(there)))
        if day in watched:
            kept_on[day] = _kept_on(there, positions)
    return Ahead(tuple(counts), tuple(archive.start for archive in there), kept_on)


def _kept_on(there: Sequence[Aged], positions: dict[int, int]) -> KeptOn:
    return KeptOn(
        tuple(positions[id(archive)] for archive in there if id(archive) in positions),
        tuple(archive.start for archive in reversed(there) if id(archive) not in positions),
    )


def gaps(restore_points: Sequence[datetime], until: date) -> list[tuple[Band, timedelta]]:
    """The longest time between two restore points, by the age of the younger one. The last one's age counts as well."""
    end = datetime.combine(until + DAY, time(), UTC)
    worst: dict[Band, timedelta] = {}
    for newer, older in pairwise([end, *restore_points]):
        band = next(name for name, days in BANDS if days is None or end - newer < days * DAY)
        worst[band] = max(worst.get(band, timedelta()), newer - older)
    return [(name, worst[name]) for name, _ in BANDS if name in worst]
