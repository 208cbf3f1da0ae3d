"""Starts maintenance. Invalid requests are refused immediately, and nothing is stored."""

from collections.abc import Callable
from typing import Any

from sqlalchemy.orm import Session

from backup_engine.detect import EngineUnsupported
from backup_engine.interface import Engine
from backup_engine.requests import (
    ExtractRequest,
    InvalidRequest,
    PruneRequest,
    RepositoryLocation,
    RetentionPolicy,
    UndeleteArchiveRequest,
)
from backup_jobs.check import request_of
from holdfast.access.caller import Caller
from holdfast.access.roles import Role
from holdfast.errors import Conflict, NotFound, Unprocessable
from holdfast.maintenance import check
from holdfast.maintenance.restore_check import DEFAULT_SAMPLE, Mode, RestoreCheckParams, archived_paths
from holdfast.maintenance.retention import PruneParams, merged
from holdfast.maintenance.schemas import CheckBody, DeleteParams, PruneBody, RestoreCheckBody, UndeleteParams
from holdfast.operations.kinds import Kind
from holdfast.operations.models import Operation
from holdfast.operations.retrying import origin_of
from holdfast.repositories import archive_records, errors, jobs, protection, store
from holdfast.repositories.location import Opener
from holdfast.repositories.models import Repository
from holdfast.repositories.policies import policy_of

READING = frozenset({"check", "restore_check"})


def start_check(
    session: Session, caller: Caller, opener: Opener, kind: Kind, repository_id: int, wanted: CheckBody
) -> Operation:
    repository = store.require(session, caller, repository_id, Role.ADMIN if wanted.repair else Role.OPERATOR)
    if wanted.repair:
        refuse_observed(repository)
    accepted_by_engine(
        opener, repository, lambda engine, location: engine.check(location, request_of(check.block_of(wanted)))
    )
    return jobs.start(session, caller, kind, repository, wanted, details={"repair": wanted.repair})


def prune_policy(opener: Opener, repository: Repository, wanted: PruneBody) -> RetentionPolicy:
    """The effective policy. Raise Unprocessable if it is empty or the engine does not support one of its rules."""
    policy = policy_of(merged(wanted.policy(), repository.retention))
    accepted_by_engine(opener, repository, lambda engine, location: engine.prune(location, PruneRequest(policy)))
    return policy


def start_prune(
    session: Session, caller: Caller, opener: Opener, kind: Kind, repository_id: int, wanted: PruneBody
) -> Operation:
    repository = store.require(session, caller, repository_id, Role.OPERATOR)
    refuse_observed(repository)
    prune_policy(opener, repository, wanted)
    params = PruneParams(**merged(wanted.policy(), repository.retention), complete=True)
    return jobs.start(session, caller, kind, repository, params)


def start_on_repository(session: Session, caller: Caller, kind: Kind, repository_id: int, params: Any) -> Operation:
    repository = store.require(session, caller, repository_id, Role.OPERATOR)
    refuse_observed(repository)
    return jobs.start(session, caller, kind, repository, params)


def start_restore_check(
    session: Session, caller: Caller, opener: Opener, kind: Kind, repository_id: int, wanted: RestoreCheckBody
) -> Operation:
    repository = store.require(session, caller, repository_id, Role.OPERATOR)
    params = restore_check_params(session, repository, wanted)
    accepted_by_engine(opener, repository, lambda engine, location: _extraction(engine, location, params))
    return jobs.start(session, caller, kind, repository, params, archive_name=params.archive)


def restore_check_params(session: Session, repository: Repository, wanted: RestoreCheckBody) -> RestoreCheckParams:
    """The parameters of the check.

    Raise Unprocessable if several kinds of check are requested, NotFound for an archive of another repository.
    """
    given: dict[Mode, Any] = {
        "paths": wanted.paths,
        "full": wanted.full_archive,
        "sample": wanted.sample,
        "canary": wanted.canary,
    }
    modes = [mode for mode, value in given.items() if value]
    if len(modes) > 1 or (wanted.archive_id is not None and wanted.archive is not None):
        raise Unprocessable(
            "restore_check.contradiction",
            "Specify only one of paths, full_archive, sample and canary, and only one of archive_id and archive.",
        )
    params = RestoreCheckParams(
        mode=modes[0] if modes else "sample",
        archive=wanted.archive,
        paths=list(wanted.paths or []),
        sample=wanted.sample or DEFAULT_SAMPLE,
        canary=wanted.canary,
    )
    if wanted.archive_id is None:
        return params
    record = archive_records.of_repository(session, repository.id, wanted.archive_id)
    archive_records.require_present(record)
    return params.model_copy(update={"archive": record.name, "engine_id": record.engine_id})


def _extraction(engine: Engine, location: RepositoryLocation, params: RestoreCheckParams) -> Any:
    try:
        paths = (params.canary.path,) if params.canary else archived_paths(params.paths)
    except ValueError as error:
        raise InvalidRequest("A path_b64 is not valid base64.") from error
    return engine.extract(location, ExtractRequest(params.archive or "archive", paths=paths, dry_run=True))


def start_delete(session: Session, caller: Caller, kind: Kind, archive: str, repository_path: str | None) -> Operation:
    """Delete an archive, given by its id in the index or by its name together with the repository's path."""
    if repository_path is None:
        record, repository = archive_records.require(session, caller, _number(archive), Role.OPERATOR)
        params = DeleteParams(archive=record.name, engine_id=record.engine_id)
    else:
        repository = _by_path(session, caller, repository_path)
        if archive_records.count_named(session, repository.id, archive) > 1:
            raise Conflict("archives.name_ambiguous", "Several archives have this name; specify one by its id.")
        params = DeleteParams(archive=archive)
    refuse_observed(repository)
    protection.refuse(session, repository.id, params.archive, params.engine_id)
    details = {"archive": params.archive}
    return jobs.start(session, caller, kind, repository, params, archive_name=params.archive, details=details)


def retry(session: Session, caller: Caller, kind: Kind, failed: Operation) -> Operation:
    """Queue a maintenance operation of any kind again, with the same parameters."""
    params = kind.params.model_validate(failed.params)
    is_repair = isinstance(params, CheckBody) and params.repair
    repository = store.require(session, caller, failed.repository_id or 0, Role.ADMIN if is_repair else Role.OPERATOR)
    if is_repair or kind.name not in READING:
        refuse_observed(repository)
    if isinstance(params, DeleteParams):
        protection.refuse(session, repository.id, params.archive, params.engine_id)
    return jobs.start(
        session,
        caller,
        kind,
        repository,
        params,
        origin=origin_of(caller, failed),
        archive_name=failed.archive_name,
    )


def start_undelete(
    session: Session, caller: Caller, opener: Opener, kind: Kind, repository_id: int, engine_id: str
) -> Operation:
    """Undelete an archive. Raise Unprocessable if the engine does not support it."""
    repository = store.require(session, caller, repository_id, Role.OPERATOR)
    refuse_observed(repository)
    request = UndeleteArchiveRequest(f"aid:{engine_id}")
    accepted_by_engine(opener, repository, lambda engine, location: engine.undelete_archive(location, request))
    return jobs.start(session, caller, kind, repository, UndeleteParams(engine_id=engine_id))


def refuse_observed(repository: Repository) -> None:
    if repository.mode == "observe":
        raise Conflict("repository.observe_only", "The repository is in observe mode, which allows no changes.")


def accepted_by_engine(
    opener: Opener, repository: Repository, build: Callable[[Engine, RepositoryLocation], Any]
) -> None:
    """Build the command, to find out now what the engine would refuse later.

    If this process does not have the engine, such as for a repository of an agent, the operation itself will report it.
    """
    engine = opener.known_engine(repository)
    if engine is None:
        return
    try:
        build(engine, RepositoryLocation(repository.path))
    except (InvalidRequest, EngineUnsupported) as error:
        raise Unprocessable(error.key, _sentence(str(error))) from error


def _sentence(message: str) -> str:
    """Make a sentence of the engine adapter's message, which may begin with a field name or a quoted value."""
    return message if message[:1].isupper() else f"The engine would refuse it: {message}"


def _number(archive: str) -> int:
    if not archive.isascii() or not archive.isdigit() or len(archive) > 19:
        raise Unprocessable(
            "archives.bad_id", "Specify the archive by its id, or add ?repository=<path> to use its name."
        )
    return int(archive)


def _by_path(session: Session, caller: Caller, path: str) -> Repository:
    repository = store.by_path(session, path)
    if repository is None:
        raise errors.not_registered(path)
    try:
        return store.require(session, caller, repository.id, Role.OPERATOR)
    except NotFound as error:
        raise errors.not_registered(path) from error
