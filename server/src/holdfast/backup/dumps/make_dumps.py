"""The operation kind `dump`: one archive with the dumps of all databases of a repository."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from sqlalchemy.orm import Session

from backup_engine.environment import SEARCH_PATH
from backup_engine.features import REFUSED_IN_NAMES
from backup_jobs import dump
from backup_jobs.bodies import BODIES, attempt
from backup_protocol import DumpBlock, JobKind
from holdfast.access.caller import Caller
from holdfast.access.vault import Vault
from holdfast.backup.agent_backups import engine_name
from holdfast.backup.archive_name import archive_name
from holdfast.backup.dumps import databases
from holdfast.backup.dumps.schemas import DumpParams
from holdfast.backup.ending import conclude, key_of, repository_of
from holdfast.errors import Conflict, Unprocessable
from holdfast.operations.context import Context
from holdfast.operations.job_work import JobReport, JobWork
from holdfast.operations.kinds import CHANGES_ARCHIVES, Kind, retry_when_interrupted
from holdfast.operations.locks import Access
from holdfast.operations.models import Operation
from holdfast.operations.outcome import Outcome, TryAgain
from holdfast.operations.status import Status
from holdfast.repositories import jobs
from holdfast.repositories.job_kinds import concluded
from holdfast.repositories.location import Opener, runs_on
from holdfast.repositories.models import Repository
from holdfast.repositories.own_places import ServicePlaces
from holdfast.repositories.work import RepositoryWork

NO_RECORDS = "The agent reported success without records of its dumps. Do not rely on the archive."
LONGEST_TEXT = 200


def kind(opener: Opener, vault: Vault, programs: str | None) -> Kind:
    """`programs` lists the folders to search first for dump programs, here and on ssh machines."""
    job = JobWork(
        JobKind.BACKUP_DUMP,
        partial(make_block, opener.own_places),
        end,
        secrets=partial(passwords, vault),  # no `leaves_archive`: an archive of a lost job proves nothing
    )
    return Kind(
        name="dump",
        category="backup",
        run=partial(run, opener, vault, programs, job),
        params=DumpParams,
        on_interrupted=retry_when_interrupted,  # never reached: the body handles interruptions inside `run`
        limit_group="backup",
        access=Access.ADD,
        effects=CHANGES_ARCHIVES,
        present=present,
        agent=job,
    )


def present(operation: Operation) -> dict[str, Any]:
    result = operation.result or {}
    return {"archive": result.get("archive"), "stats": result.get("stats"), "dumps": result.get("dumps") or []}


def run(opener: Opener, vault: Vault, programs: str | None, job: JobWork, context: Context) -> Outcome | TryAgain:
    opened = RepositoryWork.open(opener, context)
    with context.database.reading() as session:
        block = make_block(opener.own_places, session, context.operation)
        known = passwords(vault, session, context.operation)
    if dump.is_able(opened.location.machine):
        _require_foreign_there(opener, context, opened.repository, block)
    path = ":".join(filter(None, (programs, SEARCH_PATH)))
    work = dump.DumpWork(context, opened.engine, opened.location, block, passwords=known, programs=path)
    return concluded(job, context, attempt(BODIES[JobKind.BACKUP_DUMP], work))


def _require_foreign_there(opener: Opener, context: Context, repository: Repository, block: DumpBlock) -> None:
    """Raise Unprocessable if an SQLite file on an ssh machine is the service's own: the host may be this machine."""
    machine = runs_on(repository)
    files = [each.database for each in block.databases if each.kind == "sqlite" and each.database]
    if machine is None or not files:
        return
    known = opener.own_places.identities()
    found = context.once(
        "own-places", lambda: {"patterns": opener.machines.own_place_exclusions(machine, files, known)}
    )
    if found["patterns"]:
        raise databases.own_places()


def make_block(places: ServicePlaces, session: Session, operation: Operation) -> DumpBlock:
    repository = repository_of(session, operation)
    params = DumpParams.model_validate(operation.params)
    stored = databases.of_repository(session, repository.id)
    on_agent, here = operation.executor == "agent", repository.execution_target == "local"
    return DumpBlock(
        archive_name=_archive_name(operation, repository, params),
        compression=repository.compression,
        comment=key_of(operation),
        upload_ratelimit_kib=params.upload_ratelimit_kib or repository.upload_ratelimit_kib,
        service_places=tuple(places.identities()) if on_agent else (),
        databases=tuple(databases.block_of(session, places, each, here=here) for each in stored),
    )


def _archive_name(operation: Operation, repository: Repository, params: DumpParams) -> str:
    """The archive's name.

    An agent gets it with the engine's own placeholder for the time, because its job may start long after it was queued.
    """
    refused = REFUSED_IN_NAMES if repository.engine_version == 2 else ""
    if operation.executor == "agent":
        return engine_name(params.archive_name, repository.name, refused)
    started = operation.started_at or operation.created_at
    return archive_name(params.archive_name, repository=repository.name, now=started, refused=refused)


def passwords(vault: Vault, session: Session, operation: Operation) -> dict[str, str]:
    """The passwords, keyed by the references in the block."""
    return databases.passwords(session, vault, operation.repository_id or 0)


def end(session: Session, operation: Operation, report: JobReport) -> Outcome:
    """Conclude a dump like a backup, but without changing the last backup that the repository shows."""
    shown = _shown(report.details.get("dumps"))
    if report.succeeded and not shown:
        return Outcome(Status.FAILED, dump.UNPROVEN, NO_RECORDS, had_effects=True)
    return conclude(session, operation, report, counts=False, more={"dumps": shown} if shown else {})


def _shown(reported: Any) -> list[dict[str, Any]]:
    """The valid records among those reported, because an agent may report anything."""
    if not isinstance(reported, list | tuple):
        return []
    return [
        _record(one) for one in reported[: databases.MOST_DATABASES] if isinstance(one, Mapping) and _is_record(one)
    ]


def _is_record(one: Mapping[str, Any]) -> bool:
    size = one.get("bytes")
    is_size = isinstance(size, int) and not isinstance(size, bool) and 0 <= size < 2**63
    return is_size and all(isinstance(one.get(name), str) for name in ("name", "file", "sha256"))


def _record(one: Mapping[str, Any]) -> dict[str, Any]:
    return {"bytes": one["bytes"], **{name: one[name][:LONGEST_TEXT] for name in ("name", "file", "sha256")}}


def start(session: Session, caller: Caller, kind: Kind, repository: Repository) -> Operation:
    """Queue the dumps of a repository. Raise Conflict or Unprocessable."""
    if repository.mode == "observe":
        raise Conflict("repository.observe_only", "The repository is in observe mode, which allows no backups.")
    databases.require_able(session, repository)
    if not databases.of_repository(session, repository.id):
        raise Unprocessable("backup.no_databases", dump.NO_DATABASES)
    return jobs.start(session, caller, kind, repository, DumpParams())
