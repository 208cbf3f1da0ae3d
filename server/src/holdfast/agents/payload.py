"""The payload of a job: complete, unchanging, and stored without secret values."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from sqlalchemy.orm import Session

from backup_engine.command import Older
from backup_engine.frozen import frozen
from backup_engine.redact import Redactor
from backup_protocol import BLOCKS, SCHEMA_VERSION, JobKind
from holdfast.errors import NotFound
from holdfast.operations.kinds import Registry
from holdfast.operations.models import Operation
from holdfast.repositories import agent_target
from holdfast.repositories import store as repositories
from holdfast.repositories.agent_register import UNKNOWN_ENCRYPTION
from holdfast.repositories.location import Opener
from holdfast.repositories.models import Repository

PASSPHRASE = "BORG_PASSPHRASE"  # noqa: S105 - the name of a variable


def secret_ref(repository: Repository) -> str:
    """The name under which an agent stores or receives the passphrase of a repository."""
    return f"repository-{repository.id}"


@frozen
class Payloads:
    registry: Registry
    opener: Opener

    def build(self, session: Session, operation: Operation) -> dict[str, Any]:
        """Build the agent's input for an operation. Raise NotFound if its repository or its kind no longer exists."""
        kind = self.registry.kinds.get(operation.kind)
        repository = repositories.get(session, operation.repository_id or 0)
        if kind is None or kind.agent is None or repository is None:
            raise NotFound("repository.not_found", "The job's repository is no longer registered.")
        job_kind = JobKind(operation.job_kind or kind.agent.job_kind)
        block = asdict(kind.agent.block(session, operation))
        if kind.agent.opens_repository:
            variables = environment(repository) if is_opened_by(repository, operation.machine_id) else {}
            block = {**block, "environment": variables}
        older: Older = "accept" if operation.params.get("older_ok") else "refuse"
        return envelope(job_kind, repository, block, older)

    def with_secrets(self, session: Session, operation: Operation, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Return the payload with its secrets, for the assigned agent only.

        The repository's passphrase is included only if this agent opens the repository and the job requires it.
        """
        kind = self.registry.kinds.get(operation.kind)
        work = kind.agent if kind is not None else None
        own = work.secrets(session, operation) if work is not None and work.secrets is not None else {}
        handed = {name: {"value": value} for name, value in own.items()}
        if work is not None and not work.opens_repository:
            return {**payload, "secrets": handed}
        repository = repositories.get(session, operation.repository_id or 0)
        if repository is None or not is_opened_by(repository, operation.machine_id):
            return dict(payload)
        opened = self.with_passphrase(repository, payload)
        return {**opened, "secrets": {**opened["secrets"], **handed}}

    def with_passphrase(self, repository: Repository, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Add the repository's passphrase. Only for the agent that opens the repository."""
        passphrase = self.opener.passphrase(repository)
        if passphrase is None:
            return dict(payload)
        return {**payload, "secrets": {secret_ref(repository): {"value": passphrase}}}

    def redactor(self, session: Session, operation: Operation) -> Redactor:
        """A redactor that removes the secrets of the operation and its repository from everything the agent sends."""
        repository = repositories.get(session, operation.repository_id or 0)
        passphrase = self.opener.passphrase(repository) if repository else None
        kind = self.registry.kinds.get(operation.kind)
        own = kind.agent.secrets if kind is not None and kind.agent is not None else None
        values = list(own(session, operation).values()) if own is not None else []
        return Redactor([*values, *([passphrase] if passphrase else [])])


def envelope(
    job_kind: JobKind, repository: Repository, block: Mapping[str, Any], older: Older = "refuse"
) -> dict[str, Any]:
    """The agent's payload, without secret values."""
    return {
        "schema_version": SCHEMA_VERSION,
        "job_kind": str(job_kind),
        "repository": repository_block(repository, older),
        BLOCKS[job_kind][0]: block,
        "secrets": {},
    }


def is_opened_by(repository: Repository, agent_machine_id: int | None) -> bool:
    return repository.execution_target == "agent" and repository.agent_machine_id == agent_machine_id


def environment(repository: Repository) -> dict[str, Any]:
    if repository.encryption == "none":
        return {}
    return {PASSPHRASE: {"secret_ref": secret_ref(repository)}}


def repository_block(repository: Repository, older: Older = "refuse") -> dict[str, Any]:
    known = repository.encryption if repository.encryption != UNKNOWN_ENCRYPTION else None
    block = {
        "repository_id": repository.id,
        "engine_version": repository.engine_version,
        "repository_path": repository.path,
        "remote_path": repository.remote_path,
        "encryption": known,
        # Importing counts as consent to a relocated repository.
        "relocated_ok": repository.setup_state in ("pending", agent_target.UNVERIFIED),
        "unencrypted_ok": repository.unencrypted_confirmed,
        "engine_id": repository.engine_id,
        "older": older if older != "refuse" else None,
    }
    return {name: value for name, value in block.items() if value is not None}
