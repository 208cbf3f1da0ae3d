"""What a retention policy leaves over time, simulated from the current archives and future backups."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import fields
from datetime import UTC, date, datetime, time, timedelta
from itertools import groupby, pairwise
from typing import Literal

from backup_engine.frozen import frozen
from backup_engine.requests import RetentionPolicy
from backup_engine.retention import PROTECTED, Aged, aged, kept, span_of

DAY = timedelta(days=1)
MOST_LOOKS = 4_000_000
"""How often the rules may examine an archive in total; takes some seconds."""
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

    def __init__(self, fits_until: date) -> None:
        super().__init__(fits_until)
        self.fits_until = fits_until
        """The last day for which the simulation would not take too long."""


@frozen
class KeptArchives:
    """What is kept at the end of a day."""

    positions: tuple[int, ...]
    """Positions among the current archives."""
    coming: tuple[datetime, ...]
    """Start times of kept future backups, oldest first."""


@frozen
class SimulatedPolicy:
    """What a policy leaves on the last day, and how many restore points there are until then."""

    counts: tuple[tuple[date, int], ...]
    """Number at the end of each day."""
    restore_points: tuple[datetime, ...]
    """On the last day, newest first."""
    kept_on: dict[date, KeptArchives]
    """On the watched days."""

    @property
    def days(self) -> list[tuple[date, int]]:
        """The days of which restore points remain on the last day, newest first, each with their number."""
        return list(Counter(start.date() for start in self.restore_points).items())


def kept_now(
    archives: Sequence[Aged], policy: RetentionPolicy, major: int, now: datetime, spared: Collection[int] = ()
) -> dict[int, str]:
    """Return, by position, the archives that a prune would keep at a given time, with the rule. Archives are newest
    first.

    `spared` are the positions of protected archives: the rules count them like others, but they are always kept.
    """
    by_rules = kept(archives, policy, major=major, within_since=cut_off(policy, now))
    return {**dict.fromkeys(spared, PROTECTED), **by_rules}


def cut_off(policy: RetentionPolicy, now: datetime) -> datetime | None:
    if not policy.keep_within:
        return None
    try:
        return now - span_of(policy.keep_within)
    except OverflowError:  # before the first year
        return datetime.min.replace(tzinfo=UTC)


def simulate_policy(
    archives: Sequence[Aged],
    coming: Sequence[datetime],
    policy: RetentionPolicy,
    *,
    major: int,
    now: datetime,
    until: date,
    watched: Collection[date] = (),
    spared: Collection[int] = (),
) -> SimulatedPolicy:
    """Simulate a policy day by day. Each day with a backup ends with a prune.

    `archives` are given newest first, `coming` oldest first. Raise TooMuch.
    """
    from holdfast.archives.retention.simulated_prunes import (
        PruneSimulation,  # loads numpy, which an idle service does without
    )

    all_of_them = PruneSimulation(archives, [aged(start) for start in coming], policy, major, spared)
    starts = groupby(range(len(coming)), key=lambda number: coming[number].astimezone(UTC).date())
    made = {day: list(numbers) for day, numbers in starts}
    rules = sum(bool(getattr(policy, each.name)) for each in fields(policy))
    counts, looks, kept_on = [], 0, {}
    for number in range((until - now.date()).days + 1):
        day = now.date() + number * DAY
        if numbers := made.get(day):
            looks += (len(numbers) + len(all_of_them.there)) * rules
            if looks > MOST_LOOKS:
                raise TooMuch(day - DAY)
            all_of_them.add(numbers)
            all_of_them.prune(datetime.combine(day + DAY, time(), UTC))
        counts.append((day, len(all_of_them.there)))
        if day in watched:
            kept_on[day] = all_of_them.kept_on()
    return SimulatedPolicy(tuple(counts), all_of_them.starts(), kept_on)


def gaps(restore_points: Sequence[datetime], until: date) -> list[tuple[Band, timedelta]]:
    """Return the longest time between two restore points, by the age of the younger one.

    The time since the newest restore point counts as well.
    """
    end = datetime.combine(until + DAY, time(), UTC)
    worst: dict[Band, timedelta] = {}
    for newer, older in pairwise([end, *restore_points]):
        band = next(name for name, days in BANDS if days is None or end - newer < days * DAY)
        worst[band] = max(worst.get(band, timedelta()), newer - older)
    return [(name, worst[name]) for name, _ in BANDS if name in worst]
