"""Blackouts: days on which nothing is started."""

from collections.abc import Iterable, Mapping
from dataclasses import field
from datetime import date, datetime

from holdfast.kit import zones
from holdfast.kit.frozen import frozen


@frozen
class Blackout:
    """Days from the first to the last, both included."""

    name: str
    first_day: date
    last_day: date
    timezone: str = "UTC"
    yearly: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    """Only repositories with all of these labels; empty: every repository."""

    def on(self, day: date) -> bool:
        if not self.yearly:
            return self.first_day <= day <= self.last_day
        first, last, this = ((each.month, each.day) for each in (self.first_day, self.last_day, day))
        return first <= this <= last if first <= last else this >= first or this <= last


def has_labels(wanted: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """Whether all wanted labels are there, with these values."""
    return all(labels.get(name) == value for name, value in wanted.items())


def covers(blackouts: Iterable[Blackout], moment: datetime, labels: Mapping[str, str]) -> Blackout | None:
    """The first blackout that holds at a moment for a repository with these labels."""
    for blackout in blackouts:
        if has_labels(blackout.labels, labels) and blackout.on(zones.to_local(blackout.timezone, moment).date()):
            return blackout
    return None
