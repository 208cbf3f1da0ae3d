"""Blackouts: days on which nothing is started."""

from collections.abc import Iterable, Mapping
from dataclasses import field
from datetime import date, datetime

from backup_engine.frozen import frozen
from holdfast.kit import zones


@frozen
class Blackout:
    """A range of days, from the first to the last inclusive."""

    name: str
    first_day: date
    last_day: date
    timezone: str = "UTC"
    yearly: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    """Applies only to repositories with all of these labels; empty: every repository."""

    def on(self, day: date) -> bool:
        if not self.yearly:
            return self.first_day <= day <= self.last_day
        first, last, this = ((each.month, each.day) for each in (self.first_day, self.last_day, day))
        return first <= this <= last if first <= last else this >= first or this <= last


def has_labels(wanted: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """Whether the labels include all wanted ones with these values."""
    return all(labels.get(name) == value for name, value in wanted.items())


def covers(blackouts: Iterable[Blackout], moment: datetime, labels: Mapping[str, str]) -> Blackout | None:
    """Return the first blackout in force at a moment for a repository with these labels."""
    return next((each for each in blackouts if has_labels(each.labels, labels) and _holds(each, moment)), None)


def holding(blackouts: Iterable[Blackout], moment: datetime) -> list[Blackout]:
    """Return the blackouts in force at a moment; each still applies only to repositories with its labels."""
    return [each for each in blackouts if _holds(each, moment)]


def _holds(blackout: Blackout, moment: datetime) -> bool:
    return blackout.on(zones.to_local(blackout.timezone, moment).date())
