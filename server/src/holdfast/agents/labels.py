"""The labels by which repositories are chosen: their own and those of their agents."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from holdfast.agents.models import AgentMachine
from holdfast.repositories.models import Repository


def together(own: Mapping[str, str] | None, of_agent: Mapping[str, str] | None) -> dict[str, str]:
    """A repository's own label goes before one of the same name that its agent has."""
    return {**(of_agent or {}), **(own or {})}


def of_repository(session: Session, repository_id: int) -> dict[str, str]:
    return _read(session, _LABELS.where(Repository.id == repository_id)).get(repository_id, {})


def of_all(session: Session) -> dict[int, dict[str, str]]:
    """By the id of each repository."""
    return _read(session, _LABELS)


def _read(session: Session, statement: Select[*tuple[Any, ...]]) -> dict[int, dict[str, str]]:
    return {number: together(own, of_agent) for number, own, of_agent in session.execute(statement)}


_LABELS = select(Repository.id, Repository.labels, AgentMachine.labels).outerjoin(
    AgentMachine, AgentMachine.id == Repository.agent_machine_id
)
