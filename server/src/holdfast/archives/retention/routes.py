"""HTTP for the simulation of retention. Nothing is changed, and no engine is asked."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta

from sqlalchemy.orm import Session

from backup_engine.retention import Aged, aged
from holdfast.access.caller import SignedInToRead
from holdfast.access.plans import has_feature
from holdfast.access.roles import Role
from holdfast.api.answers import documented
from holdfast.api.dependencies import TheDatabase, TheSettings
from holdfast.api.router import router
from holdfast.archives import losses_view
from holdfast.archives.archive_index import ArchiveIndex
from holdfast.archives.losses_schemas import Losses
from holdfast.archives.retention import coming, judging, simulate
from holdfast.archives.retention.coming import Coming
from holdfast.archives.retention.schemas import (
    Backups,
    Forecast,
    Gap,
    Judged,
    PointsOfDay,
    Simulated,
    Simulation,
    SimulationRequest,
)
from holdfast.archives.retention.simulate import Ahead
from holdfast.archives.retention.sizes_ahead import (
    Past,
    Sets,
    days_ahead,
    made_lately,
    measured,
    samples,
    samples_by_chunks,
    series_to_come,
)
from holdfast.archives.route_values import TheCadence, TheIndex
from holdfast.errors import Unavailable, Unprocessable
from holdfast.kit import clock, courtesy
from holdfast.kit.fields import RowId
from holdfast.repositories import archive_records, store
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.cadence import Cadence
from holdfast.repositories.models import Repository
from holdfast.repositories.own_places import Sealed, ThePlaces
from holdfast.repositories.schemas import Retention
from holdfast.runner.engine_requests import asks_engine

routes = router("/api/repositories/{repository_id}/retention", "archives")

DEFAULT_AHEAD, MOST_AHEAD = timedelta(days=90), timedelta(days=731)
MOST_BACKUPS = 60_000
"""More than two schedules make in 90 days, each as often as one may."""
LOSSES_SHOWN = 20
COURTESY_SECONDS = 5.0
NOTHING_LEARNED = Forecast(now=None, basis=None, points=[], reason="too_few_backups")


@routes.post("/simulate", summary="What retention policies would keep, today and later", responses=documented(404))
@asks_engine
def simulate_retention(
    caller: SignedInToRead,
    settings: TheSettings,
    repository_id: RowId,
    wanted: SimulationRequest,
    database: TheDatabase,
    index: TheIndex,
    places: ThePlaces,
    cadence: TheCadence,
) -> Simulation:
    """By the engine's own rules, with a prune at the end of each day that has a backup.

    Days are those of UTC, as in a prune. No engine is asked; a prune asks it once more and stops if it says otherwise.
    """
    now = clock.now()
    asked = _until(wanted.until, now)
    with database.reading() as session:
        repository = store.require(session, caller, repository_id, Role.VIEWER)
        known = archive_records.all_of(session, repository_id)
        sealed = places.sealed(session, caller, repository)
        archives = judging.considered(known, wanted.series)
        backups = _coming(session, cadence, repository, wanted, [archive.start for archive in archives], now, asked)
        made = made_lately(session, repository_id, archives, now, wanted.series)
        expected = series_to_come(made, backups.starts[: MOST_BACKUPS + 1])
        past = Past(archives[::-1], samples(made), repository.unique_size, expected)
    told = has_feature(settings, "archive_history")
    first = wanted.policy or Retention.model_validate(repository.retention)
    policies = [policy for policy in (first, wanted.compare_with) if policy is not None]
    can_shorten = wanted.until is None
    with courtesy.shown(COURTESY_SECONDS):
        until, backups, found = _all_simulated(policies, repository, archives, backups, now, asked, can_shorten)
    if told and not any(past.made.values()):
        past = _with_samples(index, repository, past)
    stored = _stored(index, repository, past, [left for _, _, left in found]) if told else None
    answers = []
    for simulated, going, left in found:
        simulated.losses = _losses(index, repository, known, going, sealed) if told and going else None
        simulated.forecast = past.forecast(left.kept_on, now, stored)
        answers.append(simulated)
    return Simulation(
        until=until,
        is_shortened=until < asked,
        archives=len(archives),
        backups=Backups(
            origin=backups.origin,
            every_minutes=None if backups.every is None else round(backups.every / timedelta(minutes=1)),
            count=len(backups.starts),
        ),
        simulated=answers[0],
        compared=answers[1] if len(answers) > 1 else None,
    )


def _until(asked: date | None, now: datetime) -> date:
    if asked is None:
        return (now + DEFAULT_AHEAD).date()
    if not now.date() <= asked <= (now + MOST_AHEAD).date():
        raise Unprocessable(
            "retention.until_out_of_range",
            f"The last day must be between today and {MOST_AHEAD.days} days ahead; choose a nearer day.",
        )
    return asked


def _coming(
    session: Session,
    cadence: Cadence,
    repository: Repository,
    wanted: SimulationRequest,
    starts: Sequence[datetime],
    now: datetime,
    until: date,
) -> Coming:
    end = datetime.combine(until + simulate.DAY, time(), UTC)
    last = starts[0] if starts else None
    if wanted.every_minutes is not None:
        return coming.regular("request", timedelta(minutes=wanted.every_minutes), last, now, end)
    scheduled = cadence.backups_between(session, repository, now, end, MOST_BACKUPS + 1)
    if scheduled is not None:
        return Coming("schedule", tuple(scheduled))
    usual = coming.habit(starts)
    if usual is not None:
        return coming.regular("past", usual, last, now, end)
    return coming.regular("assumed", coming.DAILY, last, now, end)


def _all_simulated(
    policies: Sequence[Retention],
    repository: Repository,
    archives: Sequence[Archive],
    backups: Coming,
    now: datetime,
    until: date,
    can_shorten: bool,
) -> tuple[date, Coming, list[tuple[Simulated, set[int], Ahead]]]:
    """All policies over the same days: those that were asked for, or as many as are not too much, if that will do."""
    if len(backups.starts) > MOST_BACKUPS:
        until = _shorter(backups.starts[MOST_BACKUPS].date() - simulate.DAY, now, can_shorten)
    dated = [aged(archive.start) for archive in archives]
    while True:
        end = datetime.combine(until + simulate.DAY, time(), UTC)
        there = replace(backups, starts=tuple(start for start in backups.starts if start < end))
        try:
            found = [_simulated(policy, repository, archives, dated, there, now, until) for policy in policies]
        except simulate.TooMuch as error:
            until = _shorter(error.fits_until, now, can_shorten)
        else:
            return until, there, found


def _shorter(until: date, now: datetime, can_shorten: bool) -> date:
    if not can_shorten or until < now.date():
        raise Unprocessable(
            "retention.too_much",
            "There are too many backups and archives to simulate."
            " Choose an earlier last day, fewer backups, or one series.",
        )
    return until


def _simulated(
    retention: Retention,
    repository: Repository,
    archives: Sequence[Archive],
    dated: Sequence[Aged],
    backups: Coming,
    now: datetime,
    until: date,
) -> tuple[Simulated, set[int], Ahead]:
    """What a policy does, the ids of the archives that it would remove today, and what it leaves later.

    Raise TooMuch.
    """
    policy = judging.engine_policy(retention, repository.engine_version)
    spared = judging.protected(archives)
    staying = simulate.kept_now(dated, policy, repository.engine_version, now, spared)
    left = simulate.ahead(
        dated,
        backups.starts,
        policy,
        major=repository.engine_version,
        now=now,
        until=until,
        watched=days_ahead(now, until),
        spared=spared,
    )
    going = {archive.id for position, archive in enumerate(archives) if position not in staying}
    simulated = Simulated(
        policy=retention,
        archives=[
            Judged(archive_id=archive.id, name=archive.name, start=archive.start, rule=staying.get(position))
            for position, archive in enumerate(archives)
        ],
        kept_now=len(staying),
        removed_now=len(going),
        counts=[PointsOfDay(day=day, restore_points=count) for day, count in left.counts],
        days=[PointsOfDay(day=day, restore_points=count) for day, count in left.days],
        oldest=left.restore_points[-1] if left.restore_points else None,
        gaps=[
            Gap(age=age, worst_seconds=round(gap.total_seconds()))
            for age, gap in simulate.gaps(left.restore_points, until)
        ],
        losses=None,
        forecast=NOTHING_LEARNED,
    )
    return simulated, going, left


def _with_samples(index: ArchiveIndex, repository: Repository, past: Past) -> Past:
    try:
        made = index.ask(repository, lambda opened, _covered: samples_by_chunks(opened, past.archives))
    except Unavailable:
        return past
    return replace(past, made=made)


def _stored(index: ArchiveIndex, repository: Repository, past: Past, left: Sequence[Ahead]) -> Sets | None:
    """The bytes of what stays; None where the file history cannot tell, or not now."""
    sets = past.sets(kept for one in left for kept in one.kept_on.values())
    try:
        return index.ask(repository, lambda opened, _covered: measured(opened, sets))
    except Unavailable:
        return None


def _losses(
    index: ArchiveIndex, repository: Repository, known: Sequence[Archive], going: set[int], sealed: Sealed
) -> Losses | None:
    return index.ask(
        repository,
        lambda opened, covered: (
            None
            if opened is None
            else losses_view.losses(opened, covered, known, going, sealed, limit=LOSSES_SHOWN, cursor=None)
        ),
    )
