"""Labels that select repositories: the repository's own and those of its agent."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from holdfast.agents.models import AgentMachine
from holdfast.repositories.models import Repository


def together(own: Mapping[str, str] | None, of_agent: Mapping[str, str] | None) -> dict[str, str]:
    """Merge the labels. A repository's own label overrides its agent's label of the same name."""
    return {**(of_agent or {}), **(own or {})}


def of_repository(session: Session, repository_id: int) -> dict[str, str]:
    return _read(session, _LABELS.where(Repository.id == repository_id)).get(repository_id, {})


def of_all(session: Session) -> dict[int, dict[str, str]]:
    """Labels of all repositories, by repository id."""
    return _read(session, _LABELS)


def _read(session: Session, statement: Select[*tuple[Any, ...]]) -> dict[int, dict[str, str]]:
    return {number: together(own, of_agent) for number, own, of_agent in session.execute(statement)}


_LABELS = select(Repository.id, Repository.labels, AgentMachine.labels).outerjoin(
    AgentMachine, AgentMachine.id == Repository.agent_machine_id
)
