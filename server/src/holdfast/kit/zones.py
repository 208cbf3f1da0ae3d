"""Time zones from the pinned `tzdata` package, never from the machine, so that all processes compute the same times."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from importlib.metadata import version
from importlib.resources import files
from zoneinfo import ZoneInfo

from backup_engine.frozen import frozen

VERSION = version("tzdata")
LOOK = timedelta(hours=12)
FINEST = timedelta(seconds=1)


class UnknownZone(ValueError):
    """No time zone has this name."""


@frozen
class Change:
    """An instant at which a zone's clocks change."""

    at: datetime
    before: timedelta
    after: timedelta


@frozen
class Stretch:
    """A period in which a zone's offset stays the same: start <= instant < end."""

    start: datetime
    end: datetime
    offset: timedelta

    def local(self, instant: datetime) -> datetime:
        """The time that local clocks show, without a zone."""
        return (instant + self.offset).replace(tzinfo=None)

    def instant(self, local: datetime) -> datetime:
        return local.replace(tzinfo=UTC) - self.offset


@lru_cache(maxsize=1)
def known() -> frozenset[str]:
    """The names of all zones."""
    return frozenset(files("tzdata").joinpath("zones").read_text("utf-8").split())


@lru_cache(maxsize=1024)
def zone(name: str) -> ZoneInfo:
    """Given an IANA name, return the zone. Raise UnknownZone."""
    if name not in known():
        raise UnknownZone(name)
    with files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


def offset_at(name: str, instant: datetime) -> timedelta:
    offset = instant.astimezone(zone(name)).utcoffset()
    assert offset is not None  # a zone always has one
    return offset


def stretches(name: str, start: datetime, end: datetime) -> Iterator[Stretch]:
    """Split the time from start to end where the clocks change."""
    begin = start
    for change in _changes_between(name, start, end):
        yield Stretch(begin, change.at, change.before)
        begin = change.at
    yield Stretch(begin, end, offset_at(name, begin))


def to_local(name: str, instant: datetime) -> datetime:
    """The time that clocks in the zone show at an instant, without a zone."""
    return instant.astimezone(zone(name)).replace(tzinfo=None, fold=0)


def local_text(name: str, instant: datetime) -> str:
    """The time that clocks in the zone show at an instant, with their offset: for answers."""
    return instant.astimezone(zone(name)).isoformat(timespec="seconds")


def first_instant(name: str, local: datetime) -> datetime:
    """Given a local time, return when clocks first show it or, inside a gap, the first instant after the gap."""
    known_zone = zone(name)
    instant = local.replace(tzinfo=known_zone, fold=0).astimezone(UTC)
    if to_local(name, instant) == local:
        return instant
    # With fold 0, a time inside a gap is read with the offset before the gap, so the change is in the past.
    behind = _changes_between(name, instant - timedelta(days=2), instant + FINEST)
    return max(change.at for change in behind)


def is_in_gap(name: str, local: datetime) -> bool:
    """Whether clocks in the zone never show this time."""
    return to_local(name, local.replace(tzinfo=zone(name), fold=0).astimezone(UTC)) != local


def is_repeated(name: str, local: datetime) -> bool:
    """Whether clocks in the zone show this time twice."""
    known_zone = zone(name)
    first, second = (local.replace(tzinfo=known_zone, fold=fold).utcoffset() for fold in (0, 1))
    return first != second and not is_in_gap(name, local)


def _changes_between(name: str, start: datetime, end: datetime) -> Iterator[Change]:
    """Changes with start < at < end."""
    for year in range(start.year, end.year + 1):
        for change in changes(name, year):
            if start < change.at < end:
                yield change


@lru_cache(maxsize=4096)
def changes(name: str, year: int) -> tuple[Change, ...]:
    """All clock changes of a zone in a UTC year."""
    found = []
    looked, end = datetime(year, 1, 1, tzinfo=UTC) - FINEST, datetime(year + 1, 1, 1, tzinfo=UTC) - FINEST
    offset = offset_at(name, looked)
    while looked < end:
        instant = min(looked + LOOK, end)
        now = offset_at(name, instant)
        if now != offset:
            found.append(Change(_first_unlike(name, looked, instant, offset), offset, now))
            offset = now
        looked = instant
    return tuple(found)


def _first_unlike(name: str, low: datetime, high: datetime, old: timedelta) -> datetime:
    """The first second after `low` at which the offset differs from the old one."""
    while high - low > FINEST:
        middle = low + timedelta(seconds=int((high - low).total_seconds()) // 2)
        if offset_at(name, middle) == old:
            low = middle
        else:
            high = middle
    return high
