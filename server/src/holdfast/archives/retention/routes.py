"""Routes for the simulation of retention. They change nothing and do not run the engine."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any

from fastapi import Response

from holdfast.access.caller import SignedInToRead
from holdfast.access.plans import has_feature
from holdfast.access.roles import Role
from holdfast.api.answers import documented
from holdfast.api.dependencies import TheDatabase, TheSettings
from holdfast.api.router import router
from holdfast.archives import losses_view
from holdfast.archives.archive_index import ArchiveIndex
from holdfast.archives.retention import removed_archives, simulation_answer
from holdfast.archives.retention.schemas import Simulation, SimulationRequest
from holdfast.archives.retention.simulation_answer import Policy, SimulationInput
from holdfast.archives.retention.size_forecast import Samples, SimulatedArchive, samples
from holdfast.archives.retention.size_samples import measured, recent_backups, samples_by_chunks, simulated_archive
from holdfast.archives.route_parameters import TheCadence, TheIndex
from holdfast.errors import Unavailable, Unprocessable
from holdfast.kit import clock
from holdfast.kit.compute_process import pack_call
from holdfast.kit.fields import RowId
from holdfast.repositories import archive_records, store
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.models import Repository
from holdfast.repositories.own_places import HiddenPaths, ThePlaces
from holdfast.repositories.schemas import Retention
from holdfast.runner.computations import Steps, computes

routes = router("/api/repositories/{repository_id}/retention", "archives")

DEFAULT_AHEAD, MOST_AHEAD = timedelta(days=90), timedelta(days=731)
LOSSES_SHOWN = 20


@routes.post(
    "/simulate",
    summary="Simulate retention policies, today and in the future",
    response_model=Simulation,
    responses=documented(404),
)
@computes
def simulate_retention(
    caller: SignedInToRead,
    settings: TheSettings,
    repository_id: RowId,
    wanted: SimulationRequest,
    database: TheDatabase,
    index: TheIndex,
    places: ThePlaces,
    cadence: TheCadence,
) -> Steps:
    """Applies the engine's rules, with a prune at the end of each day that has a backup.

    Days are UTC, as in a prune. The simulation does not run the engine; a prune does, and stops if the engine's plan
    differs.
    """
    now = clock.now()
    until = _until(wanted.until, now)
    with database.reading() as session:
        repository = store.require(session, caller, repository_id, Role.VIEWER)
        known = archive_records.all_of(session, repository_id)
        hidden = places.hidden_paths(session, caller, repository)
        archives = removed_archives.restorable(known, wanted.series)
        points = [simulated_archive(archive) for archive in archives]
        made = recent_backups(session, repository_id, archives, now, wanted.series)
        due = None if wanted.every_minutes is not None else cadence.backups_to_come(session, repository)
    told = has_feature(settings, "archive_history")
    first = wanted.policy or Retention.model_validate(repository.retention)
    simulation = SimulationInput(
        policies=[_policy(policy, repository) for policy in (first, wanted.compare_with) if policy is not None],
        major=repository.engine_version,
        archives=points,
        protected=removed_archives.protected(archives),
        due=due,
        every=None if wanted.every_minutes is None else timedelta(minutes=wanted.every_minutes),
        made=made,
        by_chunks=_by_chunks(index, repository, points) if told and not any(samples(made).values()) else None,
        unique_size=repository.unique_size,
        now=now,
        until=until,
        can_shorten=wanted.until is None,
    )
    found = yield pack_call(simulation_answer.first_part, simulation)
    if found is None:
        raise Unprocessable(
            "retention.too_much",
            "There are too many backups and archives to simulate."
            " Choose an earlier last day, fewer backups, or one series.",
        )
    going, sets, rest = found
    stored = _stored(index, repository, [frozenset(points[each].engine_id for each in one) for one in sets], told=told)
    losses = [_losses(index, repository, known, set(ids), hidden) if told and ids else None for ids in going]
    answer = yield pack_call(simulation_answer.second_part, rest, stored, losses)
    return Response(answer, media_type="application/json")


def _policy(retention: Retention, repository: Repository) -> Policy:
    rules = removed_archives.engine_policy(retention, repository.engine_version)
    return Policy(rules, retention.model_dump(mode="json", by_alias=True))


def _until(asked: date | None, now: datetime) -> date:
    if asked is None:
        return (now + DEFAULT_AHEAD).date()
    if not now.date() <= asked <= (now + MOST_AHEAD).date():
        raise Unprocessable(
            "retention.until_out_of_range",
            f"The last day must be between today and {MOST_AHEAD.days} days ahead; choose a nearer day.",
        )
    return asked


def _by_chunks(index: ArchiveIndex, repository: Repository, points: Sequence[SimulatedArchive]) -> Samples | None:
    try:
        return index.ask(repository, lambda opened, _covered: samples_by_chunks(opened, points[::-1]))
    except Unavailable:
        return None


def _stored(
    index: ArchiveIndex, repository: Repository, sets: Sequence[frozenset[str]], *, told: bool
) -> Sequence[int] | None:
    """Return the bytes of the kept archives; None if the file history does not have them, or is unavailable."""
    if not told:
        return None
    try:
        return index.ask(repository, lambda opened, _covered: measured(opened, sets))
    except Unavailable:
        return None


def _losses(
    index: ArchiveIndex, repository: Repository, known: Sequence[Archive], going: set[int], hidden: HiddenPaths
) -> Mapping[str, Any] | None:
    found = index.ask(
        repository,
        lambda opened, covered: (
            None
            if opened is None
            else losses_view.losses(opened, covered, known, going, hidden, limit=LOSSES_SHOWN, cursor=None)
        ),
    )
    return None if found is None else found.model_dump(mode="json", by_alias=True)
