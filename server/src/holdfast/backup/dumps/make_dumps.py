"""The operation kind `dump`: one archive of the dumps of all databases of a repository."""

from functools import partial
from typing import Any

from sqlalchemy.orm import Session

from backup_engine.environment import SEARCH_PATH
from backup_engine.features import REFUSED_IN_NAMES
from backup_jobs import dump
from backup_jobs.bodies import Body, attempt
from backup_jobs.work import Work
from holdfast.access.caller import Caller
from holdfast.access.vault import Vault
from holdfast.backup.dumps import databases
from holdfast.backup.dumps.schemas import DumpParams
from holdfast.backup.ending import conclude, key_of, repository_of
from holdfast.backup.names import archive_name
from holdfast.errors import Conflict, Unprocessable
from holdfast.operations.context import Context
from holdfast.operations.job_work import JobReport, JobWork
from holdfast.operations.kinds import Effect, Kind, again_when_interrupted
from holdfast.operations.locks import Access
from holdfast.operations.models import Operation
from holdfast.operations.outcome import Outcome, TryAgain
from holdfast.operations.status import Status
from holdfast.repositories import jobs
from holdfast.repositories.job_kinds import concluded
from holdfast.repositories.location import Opener
from holdfast.repositories.models import Repository
from holdfast.repositories.own_places import ServicePlaces
from holdfast.repositories.work import RepositoryWork

BODY = Body(dump.run, dump.interrupted)
NO_DATABASES = "The repository has no databases to dump; add one first."


def kind(opener: Opener, vault: Vault, programs: str | None) -> Kind:
    """`programs`: folders in which the programs that dump databases are looked for first."""
    return Kind(
        name="dump",
        category="backup",
        run=partial(run, opener, vault, programs),
        params=DumpParams,
        on_interrupted=again_when_interrupted,  # never reached: the body deals with it inside `run`
        limit_group="backup",
        access=Access.ADD,
        effects=frozenset({Effect.ARCHIVES_CHANGED}),
        present=present,
    )


def present(operation: Operation) -> dict[str, Any]:
    result = operation.result or {}
    return {"archive": result.get("archive"), "stats": result.get("stats"), "dumps": result.get("dumps") or []}


def run(opener: Opener, vault: Vault, programs: str | None, context: Context) -> Outcome | TryAgain:
    opened = RepositoryWork.open(opener, context)
    with context.database.reading() as session:
        block = make_block(session, opener.own_places, vault, programs, context.operation)
    if not block.databases:
        return Outcome(Status.FAILED, "backup.no_databases", NO_DATABASES)
    work = Work(context, opened.engine, opened.location, block, dump.Dumps())
    return concluded(JOB, context, attempt(BODY, work))


def make_block(
    session: Session, places: ServicePlaces, vault: Vault, programs: str | None, operation: Operation
) -> dump.DumpBlock:
    repository = repository_of(session, operation)
    params = DumpParams.model_validate(operation.params)
    stored = databases.of_repository(session, repository.id)
    found = tuple(databases.opened(session, places, vault, each) for each in stored)
    refused = REFUSED_IN_NAMES if repository.engine_version == 2 else ""
    started = operation.started_at or operation.created_at
    return dump.DumpBlock(
        archive_name=archive_name(params.archive_name, repository=repository.name, now=started, refused=refused),
        source_paths=tuple(database.file for database in found),
        compression=repository.compression,
        comment=key_of(operation),
        upload_ratelimit_kib=params.upload_ratelimit_kib or repository.upload_ratelimit_kib,
        databases=found,
        programs=":".join(filter(None, (programs, SEARCH_PATH))),
    )


def end(session: Session, operation: Operation, report: JobReport) -> Outcome:
    """As a backup ends, but it is none: what the repository shows as its last backup stays."""
    shown = report.details.get("dumps")
    return conclude(session, operation, report, counts=False, more={"dumps": shown} if shown else {})


def start(session: Session, caller: Caller, kind: Kind, repository: Repository) -> Operation:
    """Queue the dumps of a repository. Raise Conflict or Unprocessable."""
    if repository.mode == "observe":
        raise Conflict("repository.observe_only", "The repository is only observed; its mode allows no backups.")
    databases.require_here(repository)
    if not databases.of_repository(session, repository.id):
        raise Unprocessable("backup.no_databases", NO_DATABASES)
    return jobs.start(session, caller, kind, repository, DumpParams())


def _no_block(session: Session, operation: Operation) -> Any:
    raise NotImplementedError  # dumps are never sent to an agent


JOB = JobWork("backup.dump", _no_block, end)
