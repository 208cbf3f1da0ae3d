"""Asking for a restore."""

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy.orm import Session

from backup_protocol import JobKind
from holdfast.access.caller import Caller
from holdfast.access.roles import Role
from holdfast.agents import store as agents
from holdfast.errors import NotFound, Unprocessable
from holdfast.kit.text import readable
from holdfast.machines import store as machines
from holdfast.machines.models import SshConnection
from holdfast.operations.kinds import Kind
from holdfast.operations.models import Operation
from holdfast.repositories import agent_target, archive_records, jobs
from holdfast.repositories import errors as repository_errors
from holdfast.repositories import store as repositories
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.location import runs_on
from holdfast.repositories.models import Repository
from holdfast.repositories.ssh_address import SshAccount, SshAddress
from holdfast.restore import archived_paths, destination, errors, store
from holdfast.restore.schemas import ExactPath, PathValue, RestoreParams, RestoreRequest


@dataclass(frozen=True, slots=True)
class Wanted:
    """A request that makes sense: what the engine may still refuse is the operation's to report."""

    repository: Repository
    params: RestoreParams


def start(session: Session, caller: Caller, kind: Kind, request: RestoreRequest, data_dir: Path) -> Operation:
    """Queue a restore. Raise NotFound, Forbidden or Unprocessable."""
    wanted = check(session, caller, request, Role.OPERATOR, data_dir)
    return jobs.start(
        session,
        caller,
        kind,
        wanted.repository,
        wanted.params,
        archive_name=wanted.params.archive,
        details={
            "archive": wanted.params.archive,
            "destination": readable(archived_paths.destination(wanted.params.destination)),
        },
        executed_by=_executor(wanted),
    )


def _executor(wanted: Wanted) -> jobs.AgentJob | jobs.OfRunner | None:
    """Whoever has the destination: an agent that receives, the agent that opens the repository itself, or a runner."""
    receiver = wanted.params.destination_machine_id
    if wanted.params.destination_type != "agent":
        return jobs.OfRunner()
    return jobs.AgentJob(receiver, JobKind.RESTORE_RECEIVE) if receiver is not None else None


def check(session: Session, caller: Caller, request: RestoreRequest, role: Role, data_dir: Path) -> Wanted:
    """Given a request, return what it asks for. Raise NotFound, Forbidden or Unprocessable."""
    repository = _repository(session, caller, request, role)
    archive, record = _archive(session, repository, request)
    if request.destination_type == "local" and request.destination_machine_id is not None:
        raise errors.unsupported_target()
    machine = _ssh_machine(session, repository, request)
    receiver = _receiving_agent(session, repository, request)
    paths = archived_paths.inside_archive(_json(path) for path in request.paths)
    outermost = archived_paths.outermost(paths)
    if request.restore_layout == "contents_only" and len(outermost) < len(paths):
        raise errors.paths_overlap()
    target = archived_paths.destination(_json(request.destination))
    if request.destination_type == "local":
        destination.inspect(target)
        refuse_own_places(session, target, data_dir)
    if machine is not None:
        refuse_repositories_there(session, target, machine)
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
    )
    return Wanted(repository, params)


def _ssh_machine(session: Session, repository: Repository, request: RestoreRequest) -> SshConnection | None:
    """The ssh machine that a restore goes to, by default the one that opens the repository; None for any other."""
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
    """The agent that receives the files of a repository that it does not open; None for any other restore."""
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
        raise errors.agent_too_old(agent.id)
    return agent.id


def refuse_own_places(session: Session, target: bytes, data_dir: Path) -> None:
    """A restore into a repository or into the service's own folder would destroy what everything depends on."""
    places = [str(data_dir.absolute()), *(repository.identity for repository in repositories.visible(session, None))]
    for place in places:
        folder = place.encode("utf-8", "surrogateescape").rstrip(b"/")
        if target == folder or target.startswith(folder + b"/"):
            raise errors.destination_forbidden()


def refuse_repositories_there(session: Session, target: bytes, machine: SshConnection) -> None:
    """The same for what is known to lie on another machine."""
    account = SshAccount(machine.username, machine.host, machine.port)
    wanted = SshAddress(account, target.decode("utf-8", "surrogateescape")).text
    for repository in repositories.visible(session, None):
        if wanted == repository.identity or wanted.startswith(repository.identity + "/"):
            raise errors.destination_forbidden()


def _repository(session: Session, caller: Caller, request: RestoreRequest, role: Role) -> Repository:
    if (request.repository_id is None) == (request.repository is None):
        raise Unprocessable("restore.repository_unclear", "Give either repository_id or repository.")
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
        raise Unprocessable("restore.archive_unclear", "Give either archive_id or archive.")
    if request.archive_id is not None:
        archive = archive_records.of_repository(session, repository.id, request.archive_id)
        return archive.name, archive
    assert request.archive is not None
    known = archive_records.by_name(session, repository.id, request.archive)
    if known is not None:
        return known.name, known
    # Without a list of archives, or for one made since it was read, only the engine knows.
    if store.knows_archives(session, repository.id) and not store.was_made(session, repository.id, request.archive):
        raise archive_records.unknown(request.archive)
    return request.archive, None


def _json(value: PathValue) -> archived_paths.Json:
    return {"path_b64": value.path_b64} if isinstance(value, ExactPath) else value


def _stored(path: bytes) -> str | dict[str, str]:
    value = archived_paths.to_json(path)
    return value if isinstance(value, str) else dict(value)
