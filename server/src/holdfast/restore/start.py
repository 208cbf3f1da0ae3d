"""Checks requests for restores, and queues them."""

import os

from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from backup_engine.protected_places import ProtectedPlaces, ProtectedTargets
from backup_jobs import paths as job_paths
from backup_jobs.paths import readable
from backup_jobs.restore.layout import Placement
from backup_protocol import JobKind
from holdfast.access import rights
from holdfast.access.caller import Caller
from holdfast.access.roles import Role
from holdfast.agents import store as agents
from holdfast.errors import NotFound, Unprocessable
from holdfast.machines import store as machines
from holdfast.machines.models import SshConnection
from holdfast.operations.kinds import Kind
from holdfast.operations.models import Operation
from holdfast.operations.queue import Origin
from holdfast.operations.retrying import origin_of
from holdfast.repositories import agent_target, archive_records, archived_paths, jobs
from holdfast.repositories import errors as repository_errors
from holdfast.repositories import store as repositories
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.archived_paths import ExactPath, PathValue
from holdfast.repositories.location import runs_on
from holdfast.repositories.models import Repository
from holdfast.repositories.own_places import ServicePlaces
from holdfast.restore import destination, errors, store
from holdfast.restore.destination import normal_destination
from holdfast.restore.grants import rule as grants
from holdfast.restore.grants.place import LOCAL, Place, own_machine
from holdfast.restore.schemas import RestoreParams, RestoreRequest

SAME_IN_THE_REQUEST = {
    *("archive_id", "paths", "destination", "destination_type", "destination_machine_id"),
    *("restore_layout", "overwrite", "dry_run"),
}


@frozen
class ValidRestore:
    """A valid request. If the engine still refuses it, the operation reports that."""

    repository: Repository
    params: RestoreParams
    may_look: bool
    """Whether the caller may see what exists at the destination; the right to restore there includes this."""
    guard: ProtectedPlaces
    """Protected places at the destination, as far as they are known on this machine."""


def start(
    session: Session,
    caller: Caller,
    kind: Kind,
    request: RestoreRequest,
    places: ServicePlaces,
    origin: Origin | None = None,
) -> Operation:
    """Queue a restore. Raise NotFound, Forbidden or Unprocessable."""
    wanted = check(session, caller, request, Role.OPERATOR, places)
    return jobs.start(
        session,
        caller,
        kind,
        wanted.repository,
        wanted.params,
        origin=origin,
        archive_name=wanted.params.archive,
        details={
            "archive": wanted.params.archive,
            "destination": readable(normal_destination(wanted.params.destination)),
        },
        executed_by=_executor(wanted),
    )


def retry(session: Session, caller: Caller, kind: Kind, failed: Operation, *, places: ServicePlaces) -> Operation:
    """Queue the same restore again. The caller's rights and the destination are checked again."""
    params = RestoreParams.model_validate(failed.params)
    request = RestoreRequest(
        repository_id=failed.repository_id,
        archive=params.archive if params.archive_id is None else None,
        **params.model_dump(include=SAME_IN_THE_REQUEST),
    )
    return start(session, caller, kind, request, places, origin_of(caller, failed))


def _executor(wanted: ValidRestore) -> jobs.AgentJob | jobs.OfRunner | None:
    """Return the executor: an agent that receives files, None for the agent that opens the repository, or a runner."""
    receiver = wanted.params.destination_machine_id
    if wanted.params.destination_type != "agent":
        return jobs.OfRunner()
    return jobs.AgentJob(receiver, JobKind.RESTORE_RECEIVE) if receiver is not None else None


def check(session: Session, caller: Caller, request: RestoreRequest, role: Role, places: ServicePlaces) -> ValidRestore:
    """Given a request, return the checked restore. Raise NotFound, Forbidden or Unprocessable."""
    repository = _repository(session, caller, request, role)
    archive, record = _archive(session, repository, request)
    if request.destination_type == "local" and request.destination_machine_id is not None:
        raise errors.unsupported_target()
    target = normal_destination(_json(request.destination))
    paths = archived_paths.inside_archive(_json(path) for path in request.paths)
    outermost = archived_paths.outermost(paths)
    contents_only = request.restore_layout == "contents_only"
    wanted = grants.targets(target, outermost, contents_only=contents_only)
    grants.require(session, caller, repository, _place(repository, request), wanted)
    machine = _ssh_machine(session, repository, request)
    receiver = _receiving_agent(session, repository, request)
    if contents_only and len(outermost) < len(paths):
        raise Unprocessable(
            "restore.paths_overlap",
            "One of the paths is inside another one; with contents_only both would be restored to the same place.",
        )
    hidden = places.hidden_paths(session, caller, repository)
    hidden.require_visible(outermost)
    layout = Placement(tuple(outermost), contents_only)
    may_look = rights.repository_role(session, caller, repository.id) in (Role.OPERATOR, Role.ADMIN)
    guard = ProtectedPlaces()
    if request.destination_type == "local" and may_look:
        guard = places.guard(session)
        destination.inspect(target)
        refuse_own_places(guard, target, layout)
    if machine is not None and may_look:
        refuse_repositories_there(session, target, machine, layout)
    params = RestoreParams(
        archive=archive,
        archive_id=record.id if record else None,
        engine_id=record.engine_id if record else None,
        paths=[_stored(path) for path in outermost],
        destination=_stored(target),
        destination_type=request.destination_type,
        destination_machine_id=machine.id if machine else receiver,
        restore_layout=request.restore_layout,
        overwrite=request.overwrite,
        dry_run=request.dry_run,
        without=[_stored(name) for name in hidden.names] or None,
    )
    return ValidRestore(repository, params, may_look, guard)


def _place(repository: Repository, request: RestoreRequest) -> Place:
    """Return the destination's machine, by default the repository's own. Raise Unprocessable if none is named."""
    if request.destination_type == "local":
        return LOCAL
    own = own_machine(repository)
    machine_id = request.destination_machine_id or (own.id if own.type == request.destination_type else None)
    if machine_id is None:
        raise errors.machine_missing() if request.destination_type == "ssh" else errors.agent_missing()
    return Place(request.destination_type, machine_id)


def _ssh_machine(session: Session, repository: Repository, request: RestoreRequest) -> SshConnection | None:
    """Return the ssh machine of a restore, by default the one that opens the repository; None for other restores."""
    if request.destination_type != "ssh":
        return None
    machine_id = request.destination_machine_id or runs_on(repository)
    if machine_id is None:
        raise errors.machine_missing()
    machine = machines.get(session, machine_id)
    if machine is None:
        raise errors.unknown_machine(machine_id)
    return machine


def _receiving_agent(session: Session, repository: Repository, request: RestoreRequest) -> int | None:
    """Return the agent that receives files of a repository that it does not open; None for other restores."""
    if request.destination_type != "agent":
        return None
    opens_it = repository.agent_machine_id if repository.execution_target == "agent" else None
    if opens_it is not None and request.destination_machine_id in (None, opens_it):
        return None
    if request.destination_machine_id is None:
        raise errors.agent_missing()
    agent = agents.get(session, request.destination_machine_id)
    if agent is None:
        raise errors.unknown_agent(request.destination_machine_id)
    if agent.status in agents.SHUT_OUT:
        raise agent_target.shut_out(agent.id)
    if JobKind.RESTORE_RECEIVE not in (agent.capabilities or ()):
        raise Unprocessable(
            "restore.agent_too_old",
            "This agent has never connected, or cannot receive another machine's files; update and start it.",
            destination_machine_id=agent.id,
        )
    return agent.id


def refuse_own_places(guard: ProtectedPlaces, target: bytes, layout: Placement) -> None:
    """Raise Unprocessable for a restore into a repository or the service's own folders, which would destroy vital data.

    Only the archive shows whether a chosen path is a folder, so paths below it are checked after it has been listed.
    """
    if guard.holds(target):
        raise errors.destination_forbidden()
    protected = ProtectedTargets(guard, target)
    for root in layout.roots:
        place = layout.target(root, is_directory=False)
        if place is not None and not layout.contents_only and protected.is_own(place, is_directory=True):
            raise Unprocessable(
                "restore.destination_forbidden",
                f"These paths would be restored into a repository or the service's own data: {readable(root)}. "
                "Choose another destination.",
            )


def refuse_repositories_there(session: Session, target: bytes, machine: SshConnection, layout: Placement) -> None:
    """The same for repositories known to be on another machine, by path; the machine itself compares inodes."""
    chosen = () if layout.contents_only else layout.roots
    targets = [target, *(target.rstrip(b"/") + b"/" + root for root in chosen)]
    for path in map(os.fsencode, repositories.paths_on_host(session, machine.host.lower())):
        if any(one == path or one.startswith(path + b"/") for one in targets):
            raise errors.destination_forbidden()


def _repository(session: Session, caller: Caller, request: RestoreRequest, role: Role) -> Repository:
    if (request.repository_id is None) == (request.repository is None):
        raise Unprocessable("restore.repository_unclear", "Specify either repository_id or repository.")
    if request.repository_id is not None:
        return repositories.require(session, caller, request.repository_id, role)
    assert request.repository is not None
    repository = repositories.by_path(session, request.repository)
    if repository is None:
        raise repository_errors.not_registered(request.repository)
    try:
        return repositories.require(session, caller, repository.id, role)
    except NotFound as error:
        raise repository_errors.not_registered(request.repository) from error


def _archive(session: Session, repository: Repository, request: RestoreRequest) -> tuple[str, Archive | None]:
    if (request.archive_id is None) == (request.archive is None):
        raise Unprocessable("restore.archive_unclear", "Specify either archive_id or archive.")
    if request.archive_id is not None:
        archive = archive_records.of_repository(session, repository.id, request.archive_id)
        return archive.name, archive_records.require_present(archive)
    assert request.archive is not None
    known = archive_records.by_name(session, repository.id, request.archive)
    if known is not None:
        return known.name, archive_records.require_present(known)
    # Without a list of archives, or for an archive made after it was read, only the engine knows.
    if store.knows_archives(session, repository.id) and not store.was_made(session, repository.id, request.archive):
        raise archive_records.unknown(request.archive)
    return request.archive, None


def _json(value: PathValue) -> job_paths.Json:
    return {"path_b64": value.path_b64} if isinstance(value, ExactPath) else value


def _stored(path: bytes) -> str | dict[str, str]:
    value = job_paths.to_json(path)
    return value if isinstance(value, str) else dict(value)
