"""The operation kind `backup`: one archive of a repository's sources."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from sqlalchemy.orm import Session

from backup_engine.features import REFUSED_IN_NAMES
from backup_jobs.sources import Exclusions, Sources
from backup_protocol import BackupBlock, JobKind
from holdfast.backup.agent_backups import engine_name
from holdfast.backup.archive_name import archive_name
from holdfast.backup.ending import conclude, key_of, repository_of
from holdfast.backup.excluded_paths import exclusions
from holdfast.backup.schemas import BackupParams
from holdfast.backup.services import stored
from holdfast.backup.services.stopped_services import StoppedServices
from holdfast.backup.start import retry, sources_outside
from holdfast.operations.context import Context
from holdfast.operations.job_work import JobWork
from holdfast.operations.kinds import CHANGES_ARCHIVES, Kind
from holdfast.operations.locks import Access
from holdfast.operations.models import Operation
from holdfast.repositories.job_kinds import job_kind
from holdfast.repositories.location import Opener, runs_on
from holdfast.repositories.models import Repository
from holdfast.repositories.own_places import ServicePlaces
from holdfast.repositories.work import RepositoryWork


def kind(opener: Opener, services: StoppedServices) -> Kind:
    job = JobWork(
        JobKind.BACKUP_CREATE, partial(block, opener.own_places), conclude, may_repeat=True, leaves_archive=True
    )
    return job_kind(
        opener,
        job,
        sources=partial(ServiceSources, opener),
        services=services.of,
        name="backup",
        category="backup",
        access=Access.ADD,
        params=BackupParams,
        effects=CHANGES_ARCHIVES,
        present=present,
        retry=retry,
    )


def present(operation: Operation) -> dict[str, Any]:
    result = operation.result or {}
    return {"archive": result.get("archive"), "stats": result.get("stats")}


def block(places: ServicePlaces, session: Session, operation: Operation) -> BackupBlock:
    repository = repository_of(session, operation)
    params = BackupParams.model_validate(operation.params)
    key = key_of(operation)
    return BackupBlock(
        archive_name=_archive_name(operation, repository, params),
        source_paths=tuple(params.source_paths or repository.source_paths),
        exclude_patterns=tuple(repository.exclude_patterns),
        compression=repository.compression,
        comment=f"{params.comment} {key}" if params.comment else key,
        custom_flags=tuple(repository.custom_flags),
        upload_ratelimit_kib=params.upload_ratelimit_kib or repository.upload_ratelimit_kib,
        within=tuple(repository.source_paths) if params.within_sources else (),
        service_places=tuple(places.identities()) if operation.executor == "agent" else (),
        services=_services(session, repository),
    )


def _services(session: Session, repository: Repository) -> tuple[str, ...]:
    """The services to stop. Raise Unprocessable if the agent is too old to stop them."""
    names = stored.of_repository(session, repository.id)
    stored.require_able(session, repository, names)
    return names


def _archive_name(operation: Operation, repository: Repository, params: BackupParams) -> str:
    """The archive's name.

    An agent gets it with the engine's own placeholder for the time, because its job may start long after it was queued.
    """
    template = params.archive_name or repository.archive_name_template
    refused = REFUSED_IN_NAMES if repository.engine_version == 2 else ""
    if operation.executor == "agent":
        return engine_name(template, repository.name, refused)
    started = operation.started_at or operation.created_at
    return archive_name(template, repository=repository.name, now=started, refused=refused)


class ServiceSources(Sources):
    """The sources of a backup whose engine runs on this machine or on one reached by ssh."""

    def __init__(self, opener: Opener, context: Context, work: RepositoryWork, block: BackupBlock) -> None:
        self._opener = opener
        self._context = context
        self._repository = work.repository
        self._block = block

    @property
    def expected_size(self) -> int | None:
        return self._repository.typical_size

    def exclusions(self) -> Exclusions:
        return exclusions(self._opener, self._context, self._repository, self._block.source_paths)

    def outside(self) -> list[str]:
        if not self._block.within:
            return []
        paths, machine_id = self._block.source_paths, runs_on(self._repository)
        found = sources_outside(self._repository, paths)
        if found or machine_id is None:
            return found
        return self._opener.machines.behind_links(machine_id, paths, self._repository.source_paths)

    def missing(self, sources: Sequence[str]) -> tuple[str, ...]:
        return self._opener.missing_sources(self._repository, sources)
