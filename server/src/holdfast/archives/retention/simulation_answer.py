"""The answer of a simulation: computed from values in a separate process (`kit/compute_process.py`), as JSON.

It has two parts, because the service reads data from the file history that only the first part can name.
"""

import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from backup_engine.frozen import frozen
from backup_engine.requests import RetentionPolicy
from backup_engine.retention import aged
from holdfast.archives.retention import expected_backups, simulate
from holdfast.archives.retention.expected_backups import ExpectedBackups
from holdfast.archives.retention.simulate import SimulatedPolicy
from holdfast.archives.retention.size_forecast import (
    Forecast,
    ForecastData,
    RecentBackup,
    Samples,
    SimulatedArchive,
    days_ahead,
    samples,
    series_to_come,
)
from holdfast.kit.plain_json import as_json

MOST_BACKUPS = 60_000
"""More backups than two schedules make in 90 days at the highest allowed frequency."""


@frozen
class Policy:
    rules: RetentionPolicy
    answered: Mapping[str, Any]
    """As in the answer."""


@frozen
class SimulationInput:
    """The input of a simulation, read in a transaction that has ended."""

    policies: Sequence[Policy]
    major: int
    archives: Sequence[SimulatedArchive]
    """Newest first."""
    protected: Sequence[int]
    """Positions."""
    due: Callable[[datetime, datetime, int], Sequence[datetime]] | None
    """The schedules, if there are any and the request has no interval."""
    every: timedelta | None
    """The requested interval."""
    made: Sequence[RecentBackup]
    by_chunks: Samples | None
    """Samples from the chunks of files, if the records have none."""
    unique_size: int | None
    now: datetime
    until: date
    can_shorten: bool


class DoesNotFit(Exception):
    """There are too many backups for the requested days."""


FirstPart = tuple[Sequence[Sequence[int]], Sequence[Sequence[int]], bytes]
"""The ids of the archives that each policy would remove today; the sets of archives, by position, whose bytes a
forecast needs; and the data that the first part passes to the second.
"""


def first_part(wanted: SimulationInput) -> FirstPart | None:
    """Compute the first part. Return None if it would take too long."""
    try:
        until, backups, found = _simulate_all(wanted)
    except DoesNotFit:
        return None
    answers = [_answer(wanted, policy, left, until) for policy, left in zip(wanted.policies, found, strict=True)]
    expected = series_to_come(wanted.made, backups.starts)
    kept = [one for left in found for one in left.kept_on.values()]
    past = ForecastData(
        wanted.archives[::-1],
        samples(wanted.made) if wanted.by_chunks is None else wanted.by_chunks,
        wanted.unique_size,
        {start: expected[start] for one in kept for start in one.coming if start in expected},
    )
    answer = {
        "until": until,
        "is_shortened": until < wanted.until,
        "archives": len(wanted.archives),
        "backups": {
            "origin": backups.origin,
            "every_minutes": None if backups.every is None else round(backups.every / timedelta(minutes=1)),
            "count": len(backups.starts),
        },
    }
    sets = past.sets(kept)
    position = {archive.engine_id: number for number, archive in enumerate(wanted.archives)}
    rest = (answer, answers, past, sets, [left.kept_on for left in found], wanted.now)
    return (
        [[one["archive_id"] for one in each["archives"] if one["rule"] is None] for each in answers],
        [[position[engine_id] for engine_id in one] for one in sets],
        pickle.dumps(rest, pickle.HIGHEST_PROTOCOL),
    )


def second_part(rest: bytes, stored: Sequence[int] | None, losses: Sequence[Mapping[str, Any] | None]) -> bytes:
    """Return a `Simulation` as JSON. `stored` are the bytes of the sets, `losses` those of each policy."""
    answer, answers, past, sets, kept_on, now = pickle.loads(rest)  # noqa: S301 - written above
    known = None if stored is None else dict(zip(sets, stored, strict=True))
    for each, kept, lost in zip(answers, kept_on, losses, strict=True):
        each["losses"] = lost
        each["forecast"] = _plain(past.forecast(kept, now, known))
    answer["simulated"] = answers[0]
    answer["compared"] = answers[1] if len(answers) > 1 else None
    return as_json(answer)


def _plain(found: Forecast) -> dict[str, Any]:
    points = [{each.name: getattr(point, each.name) for each in fields(point)} for point in found.points]
    return {"now": found.now, "basis": found.basis, "points": points, "reason": found.reason}


def _simulate_all(wanted: SimulationInput) -> tuple[date, ExpectedBackups, list[SimulatedPolicy]]:
    """Simulate all policies over the same days: the requested ones, or fewer if those are too many and may be cut."""
    backups, until = _coming(wanted), wanted.until
    if len(backups.starts) > MOST_BACKUPS:
        until = _shorter(backups.starts[MOST_BACKUPS].date() - simulate.DAY, wanted)
    dated = [aged(archive.start) for archive in wanted.archives]
    while True:
        end = _end_of(until)
        there = replace(backups, starts=tuple(start for start in backups.starts if start < end))
        try:
            found = [
                simulate.simulate_policy(
                    dated,
                    there.starts,
                    policy.rules,
                    major=wanted.major,
                    now=wanted.now,
                    until=until,
                    watched=days_ahead(wanted.now, until),
                    spared=wanted.protected,
                )
                for policy in wanted.policies
            ]
        except simulate.TooMuch as error:
            until = _shorter(error.fits_until, wanted)
        else:
            return until, there, found


def _coming(wanted: SimulationInput) -> ExpectedBackups:
    end, starts = _end_of(wanted.until), [archive.start for archive in wanted.archives]
    last = starts[0] if starts else None
    if wanted.every is not None:
        return expected_backups.regular("request", wanted.every, last, wanted.now, end)
    if wanted.due is not None:
        return ExpectedBackups("schedule", tuple(wanted.due(wanted.now, end, MOST_BACKUPS + 1)))
    usual = expected_backups.usual_interval(starts)
    if usual is not None:
        return expected_backups.regular("past", usual, last, wanted.now, end)
    return expected_backups.regular("assumed", expected_backups.DAILY, last, wanted.now, end)


def _end_of(day: date) -> datetime:
    return datetime.combine(day + simulate.DAY, time(), UTC)


def _shorter(until: date, wanted: SimulationInput) -> date:
    if not wanted.can_shorten or until < wanted.now.date():
        raise DoesNotFit
    return until


def _answer(wanted: SimulationInput, policy: Policy, left: SimulatedPolicy, until: date) -> dict[str, Any]:
    """Return the effect of a policy: a `Simulated` without losses and forecast."""
    dated = [aged(archive.start) for archive in wanted.archives]
    staying = simulate.kept_now(dated, policy.rules, wanted.major, wanted.now, wanted.protected)
    return {
        "policy": policy.answered,
        "archives": [
            {"archive_id": one.id, "name": one.name, "start": one.start, "rule": staying.get(position)}
            for position, one in enumerate(wanted.archives)
        ],
        "kept_now": len(staying),
        "removed_now": len(wanted.archives) - len(staying),
        "counts": _by_day(left.counts),
        "days": _by_day(left.days),
        "oldest": left.restore_points[-1] if left.restore_points else None,
        "gaps": [
            {"age": age, "worst_seconds": round(gap.total_seconds())}
            for age, gap in simulate.gaps(left.restore_points, until)
        ],
    }


def _by_day(counted: Sequence[tuple[date, int]]) -> list[dict[str, Any]]:
    return [{"day": day, "restore_points": count} for day, count in counted]
