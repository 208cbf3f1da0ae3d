"""Routes for maintenance jobs. Starting one requires the token of a normal login."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from fastapi import Body, Depends, Path, Query

from holdfast.access.caller import LoginOnly, SignedIn
from holdfast.access.idempotency import Once
from holdfast.access.roles import Role
from holdfast.api.answers import documented
from holdfast.api.dependencies import TheDatabase, Writing
from holdfast.api.router import router
from holdfast.kit.fields import PlainText, RowId
from holdfast.maintenance import schemas
from holdfast.maintenance import start as starting
from holdfast.maintenance.deleted_archives import DELETED_ANSWERS, DeletedAnswers
from holdfast.maintenance.dry_run import DRY_RUNS, DryRuns
from holdfast.maintenance.present import jobs
from holdfast.operations.kinds import Kind
from holdfast.operations.schemas import StartAnswer
from holdfast.repositories import jobs as repository_jobs
from holdfast.repositories import protection, store
from holdfast.repositories.job_routes import JobRoutes, ToStart, starts, the_kinds
from holdfast.repositories.location import OPENER, Opener
from holdfast.runner.engine_requests import asks_engine

repository_routes = router("/api/repositories", "maintenance")
archive_routes = router("/api/archives", "maintenance")


TheOpener = Annotated[Opener, Depends(OPENER)]
TheKinds = Annotated[Mapping[str, Kind], Depends(the_kinds)]
TheDeletedAnswers = Annotated[DeletedAnswers, Depends(DELETED_ANSWERS)]
TheDryRuns = Annotated[DryRuns, Depends(DRY_RUNS)]


@starts(repository_routes, "/{repository_id}/check", "Check a repository")
def start_check(
    to_start: ToStart, repository_id: RowId, wanted: Annotated[schemas.CheckBody | None, Body()] = None
) -> Any:
    """With `repair` (administrators only), damage is repaired; lost content cannot be recovered."""
    session, caller, opener, kind = to_start.session, to_start.caller, to_start.opener, to_start.kinds["check"]
    body = wanted or schemas.CheckBody()
    return to_start.answer("check", lambda: starting.start_check(session, caller, opener, kind, repository_id, body))


@repository_routes.post(
    "/{repository_id}/prune",
    summary="Prune archives by the retention policy",
    responses=documented(404, 409, 423),
    response_model=StartAnswer | schemas.PruneDryRun,
)
@asks_engine
def start_prune(
    caller: LoginOnly,
    repository_id: RowId,
    database: TheDatabase,
    kinds: TheKinds,
    opener: TheOpener,
    dry_runs: TheDryRuns,
    once: Once,
    wanted: Annotated[schemas.PruneBody | None, Body()] = None,
) -> Any:
    """A dry run returns at once what would be kept and removed, and starts nothing."""
    body = wanted or schemas.PruneBody()
    if body.dry_run:
        with database.reading() as session:
            repository = store.require(session, caller, repository_id, Role.OPERATOR)
            protected = protection.engine_ids(session, repository_id)
        policy = starting.prune_policy(opener, repository, body)
        return schemas.PruneDryRun(prune_result=dry_runs.prune(repository, policy, protected))
    with database.writing() as session:

        def start() -> StartAnswer:
            operation = starting.start_prune(session, caller, opener, kinds["prune"], repository_id, body)
            return repository_jobs.started(operation, "prune")

        return once(session, start)


@starts(repository_routes, "/{repository_id}/compact", "Reclaim the space of removed archives")
def start_compact(
    to_start: ToStart, repository_id: RowId, wanted: Annotated[schemas.CompactBody | None, Body()] = None
) -> Any:
    session, caller, kind = to_start.session, to_start.caller, to_start.kinds["compact"]
    body = wanted or schemas.CompactBody()
    return to_start.answer(
        "compaction", lambda: starting.start_on_repository(session, caller, kind, repository_id, body)
    )


@starts(repository_routes, "/{repository_id}/restore-check", "Start a restore check")
def start_restore_check(
    to_start: ToStart, repository_id: RowId, wanted: Annotated[schemas.RestoreCheckBody | None, Body()] = None
) -> Any:
    """Read files back from an archive without writing them. Proven files were read completely, decrypted, and match
    the archive's records.
    """
    session, caller, opener = to_start.session, to_start.caller, to_start.opener
    kind, body = to_start.kinds["restore_check"], wanted or schemas.RestoreCheckBody()
    return to_start.answer(
        "restore check", lambda: starting.start_restore_check(session, caller, opener, kind, repository_id, body)
    )


@archive_routes.delete(
    "/{archive_id}", summary="Delete an archive", responses=documented(404, 409), response_model=StartAnswer
)
def delete_archive(
    caller: LoginOnly,
    archive_id: Annotated[
        str, PlainText(1, 255), Path(description="Archive id, or its name together with `repository`.")
    ],
    session: Writing,
    kinds: TheKinds,
    once: Once,
    repository: Annotated[
        Annotated[str, PlainText(1, 4096)] | None, Query(description="Path of the repository, for deleting by name.")
    ] = None,
) -> Any:
    def start() -> StartAnswer:
        operation = starting.start_delete(session, caller, kinds["delete_archive"], archive_id, repository)
        message = f"The deletion of {operation.archive_name} from {operation.repository_name} is queued."
        return StartAnswer(job_id=operation.id, status=operation.status, message=message)

    return once(session, start)


@repository_routes.get(
    "/{repository_id}/deleted-archives",
    summary="List deleted archives that can be undeleted, read live",
    responses=documented(404, 423),
)
@asks_engine
def deleted_archives(
    caller: SignedIn, repository_id: RowId, database: TheDatabase, deleted: TheDeletedAnswers
) -> schemas.DeletedArchives:
    """Engine 2 keeps deleted or pruned archives until the next compaction; engine 1 does not (`engine.unsupported`)."""
    with database.reading() as session:
        repository = store.require(session, caller, repository_id, Role.VIEWER)
    return deleted.archives(repository)


@starts(repository_routes, "/{repository_id}/deleted-archives/{engine_id}/undelete", "Undelete an archive")
def undelete_archive(
    to_start: ToStart,
    repository_id: RowId,
    engine_id: Annotated[schemas.EngineId, Path(description="The engine's id of the archive.")],
) -> Any:
    """Possible until the next compaction, and only with engine 2."""
    session, caller, opener = to_start.session, to_start.caller, to_start.opener
    kind = to_start.kinds["undelete_archive"]
    return to_start.answer(
        "undeletion", lambda: starting.start_undelete(session, caller, opener, kind, repository_id, engine_id)
    )


# --- status and lists -------------------------------------------------------------------------------------------------

for _word, _kind, _what in (
    ("check", "check", "check"),
    ("prune", "prune", "prune"),
    ("compact", "compact", "compaction"),
    ("restore-check", "restore_check", "restore check"),
):
    _jobs = JobRoutes(routes=repository_routes, kind=_kind, present=jobs)
    _jobs.status(f"/{_word}-jobs/{{job_id}}", schemas.MaintenanceJob, name="read_job", summary=f"Status of a {_what}")
    _jobs.of_repository(
        f"/{{repository_id}}/{_word}-jobs",
        schemas.MaintenanceJobs,
        name="list_jobs",
        summary=f"List every {_what} of a repository",
    )

_deletions = JobRoutes(routes=repository_routes, kind="delete_archive", present=jobs)
replace(_deletions, routes=archive_routes).status(
    "/delete-jobs/{job_id}", schemas.MaintenanceJob, name="read_delete_job", summary="Get the status of a deletion"
)
_deletions.of_repository(
    "/{repository_id}/delete-jobs",
    schemas.MaintenanceJobs,
    name="list_delete_jobs",
    summary="List archive deletions of a repository",
)
