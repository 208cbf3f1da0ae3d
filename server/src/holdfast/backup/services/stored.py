"""Read and replace the services that backups of a repository stop. Changes are recorded in the audit trail."""

from collections.abc import Sequence

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from backup_protocol import Capability
from holdfast.access import audit
from holdfast.access.caller import Caller
from holdfast.backup.services.models import StoppedService
from holdfast.errors import Unprocessable
from holdfast.repositories import agent_target
from holdfast.repositories.models import Repository


def of_repository(session: Session, repository_id: int) -> tuple[str, ...]:
    found = select(StoppedService.name).where(StoppedService.repository_id == repository_id)
    return tuple(session.scalars(found.order_by(StoppedService.position)))


def replace(session: Session, caller: Caller, repository: Repository, names: Sequence[str]) -> tuple[str, ...]:
    """Replace the list of services. Raise Unprocessable."""
    if len(set(names)) != len(names):
        raise Unprocessable("backup.service_twice", "List each service once.")
    require_able(session, repository, names)
    before = of_repository(session, repository.id)
    session.execute(delete(StoppedService).where(StoppedService.repository_id == repository.id))
    session.add_all(
        StoppedService(repository_id=repository.id, position=position, name=name) for position, name in enumerate(names)
    )
    if before != tuple(names):
        details = {"before": list(before), "after": list(names)}
        audit.note(session, caller, "services.changed", "repository", repository.id, details)
    return tuple(names)


def require_able(session: Session, repository: Repository, names: Sequence[str]) -> None:
    """Raise Unprocessable if the agent is too old: it would back up without stopping anything."""
    if names:
        sentence = "This agent is too old to stop services; update it."
        agent_target.require_able(session, repository, Capability.SERVICE_HOLD, sentence)
