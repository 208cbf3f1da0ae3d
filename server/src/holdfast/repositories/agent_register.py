"""Repositories on agents: an operation creates or opens them on the agent's machine."""

import uuid

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from holdfast.access import audit
from holdfast.access.caller import Caller
from holdfast.errors import Conflict, Unprocessable
from holdfast.operations import pages, queue
from holdfast.operations.kinds import Kind
from holdfast.operations.models import Operation
from holdfast.operations.queue import Origin
from holdfast.operations.status import Trigger
from holdfast.repositories import agent_target, errors, store
from holdfast.repositories.location import Opener
from holdfast.repositories.models import Repository
from holdfast.repositories.record import new_record
from holdfast.repositories.schemas import ImportedRepository, NewRepository, RepositoryPlace, RepositorySettings
from holdfast.storage.session import Database

UNKNOWN_ENCRYPTION = "unknown"


@frozen
class AgentRegister:
    database: Database
    opener: Opener
    init: Kind
    open: Kind
    break_lock: Kind

    def create(self, caller: Caller, wanted: NewRepository) -> Repository:
        """Store the repository immediately and let its agent run the engine's init."""
        self._require_able(wanted.agent_machine_id, self.init)
        return self._add(caller, wanted, wanted.encryption, self.init, "repository.created")

    def import_existing(self, caller: Caller, wanted: ImportedRepository) -> Repository:
        """Store the repository immediately and let its agent open it."""
        if wanted.keyfile is not None:
            raise Unprocessable(
                "repository.keyfile_on_agent", "The key of an agent's repository is stored on its machine."
            )
        encryption = wanted.encryption or UNKNOWN_ENCRYPTION
        able = self._is_able(wanted.agent_machine_id, self.open)
        kind = self.open if able else None
        return self._add(caller, wanted, encryption, kind, "repository.imported", older_ok=wanted.older_ok)

    def set_up_again(self, session: Session, caller: Caller, repository: Repository) -> Operation:
        """Queue the setup again. Raise Conflict if it is not needed or still running."""
        agent_target.require_agent(session, repository.agent_machine_id)
        state = agent_target.setup_state(session, repository)
        if repository.execution_target != "agent" or state not in ("failed", agent_target.UNVERIFIED):
            raise Conflict("repository.setup_not_needed", f"The setup of the repository is {state}.", setup_state=state)
        before = agent_target.setup_operation(session, repository)
        made = before is not None and before.kind == self.init.name
        kind = self.init if made and state == "failed" else self.open
        self._require_able(repository.agent_machine_id, kind)
        operation = self._set_up(session, caller, repository, kind)
        _record(session, caller, "repository.setup_again", repository)
        return operation

    def confirm_relocation(self, session: Session, caller: Caller, repository: Repository) -> Operation:
        """Let the agent open the repository again, with the user's confirmation that it was moved on purpose."""
        operation = self.open_again(session, caller, repository)
        _record(session, caller, "repository.relocation_confirmed", repository)
        return operation

    def open_again(
        self, session: Session, caller: Caller, repository: Repository, *, older_ok: bool = False
    ) -> Operation:
        """Let the agent open the repository at its current location; other work on it waits for that.

        Raise Conflict if a setup or an operation of the repository is already running.
        """
        agent_target.require_agent(session, repository.agent_machine_id)
        if agent_target.setup_state(session, repository) == "pending":
            raise Conflict("repository.setup_not_needed", "The repository is being set up.", setup_state="pending")
        self._require_able(repository.agent_machine_id, self.open)
        queue.serialise_claims(session)
        if running := pages.running_of_repositories(session, [repository.id]):
            raise errors.operation_running(running[repository.id].id)
        return self._set_up(session, caller, repository, self.open, older_ok=older_ok)

    def start_breaking_lock(self, session: Session, caller: Caller, repository: Repository) -> Operation:
        """Queue breaking the lock. Raise Conflict while an operation of the service runs: its lock is not stale."""
        queue.serialise_claims(session)
        if running := pages.running_of_repositories(session, [repository.id]):
            raise errors.operation_running(running[repository.id].id)
        agent_target.require_agent(session, repository.agent_machine_id)
        origin = Origin(Trigger.MANUAL, caller.user_id, caller.username)
        operation = queue.enqueue(session, self.break_lock, {}, origin, subject=store.subject(repository))
        _record(session, caller, "repository.lock_broken", repository)
        return operation

    # --- parts ----------------------------------------------------------------------------------------------------

    def _is_able(self, agent_machine_id: int | None, kind: Kind) -> bool:
        assert kind.agent is not None
        with self.database.reading() as session:
            agent = agent_target.require_agent(session, agent_machine_id)
            return agent_target.can(session, agent, kind.agent.job_kind)

    def _require_able(self, agent_machine_id: int | None, kind: Kind) -> None:
        """Raise Unprocessable if the agent lacks the capability for the setup, which would then wait indefinitely."""
        if not self._is_able(agent_machine_id, kind):
            raise errors.agent_unable(agent_machine_id, kind.agent.job_kind if kind.agent else kind.name)

    def _add(
        self,
        caller: Caller,
        wanted: RepositoryPlace,
        encryption: str,
        kind: Kind | None,
        action: str,
        *,
        older_ok: bool = False,
    ) -> Repository:
        """Store the repository, and queue its setup if a kind is given; without one, the agent cannot set it up."""
        path = checked_place(wanted)
        passphrase = wanted.passphrase.get_secret_value() if wanted.passphrase else None
        try:
            with self.database.writing() as session:
                agent = agent_target.require_agent(session, wanted.agent_machine_id)
                identity = store.identity_on_agent(agent, path)
                store.require_unused(session, place=identity, name=wanted.name)
                repository = new_record(
                    self.opener,
                    wanted,
                    number=uuid.uuid4().hex,
                    path=path,
                    identity=identity,
                    encryption=encryption,
                    passphrase=passphrase,
                    agent_machine_id=agent,
                    setup_state="pending" if kind else agent_target.UNVERIFIED,
                )
                session.add(repository)
                session.flush()
                store.publish(session, repository.id, "created")
                _record(session, caller, action, repository)
                if kind is not None:
                    self._set_up(session, caller, repository, kind, older_ok=older_ok)
        except IntegrityError as error:
            raise errors.path_taken() from error
        return repository

    def _set_up(
        self, session: Session, caller: Caller, repository: Repository, kind: Kind, *, older_ok: bool = False
    ) -> Operation:
        origin = Origin(Trigger.INITIAL, caller.user_id, caller.username)
        params = {"older_ok": True} if older_ok else {}
        operation = queue.enqueue(session, kind, params, origin, subject=store.subject(repository))
        repository.setup_state = "pending"
        repository.setup_operation_id = operation.id
        session.flush()
        return operation


def checked_place(wanted: RepositoryPlace) -> str:
    """Return the path of a repository on an agent's machine, or its address on another machine."""
    check_sources(wanted)
    if wanted.passphrase_location == "agent" and wanted.passphrase is not None:  # noqa: S105
        raise Unprocessable(
            "repository.passphrase_on_agent", "The passphrase is stored on the agent; set it on the agent's machine."
        )
    if wanted.ssh_connection_id is not None or wanted.repository_type == "rclone":
        raise Unprocessable("repository.unsupported_target", "Agents open repositories on disks and over ssh.")
    path = store.normal_path(wanted.path)
    if wanted.repository_type == "local" and (not path.startswith("/") or path == "/"):
        raise Unprocessable("repository.path_not_absolute", "The path of a local repository must be absolute.")
    if wanted.repository_type == "ssh" and not path.startswith("ssh://"):
        raise Unprocessable("repository.bad_address", "The address of an ssh repository must begin with ssh://.")
    return path


def check_sources(wanted: RepositorySettings) -> None:
    if any(not source.startswith("/") for source in wanted.source_paths):
        raise Unprocessable("repository.source_not_absolute", "Source paths must be absolute.")


def _record(session: Session, caller: Caller, action: str, repository: Repository) -> None:
    details = {
        "name": repository.name,
        "path": repository.path,
        "agent_machine_id": repository.agent_machine_id,
    }
    audit.note(session, caller, action, "repository", repository.id, details)
