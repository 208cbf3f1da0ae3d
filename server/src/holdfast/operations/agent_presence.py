"""Whether an operation's agent is connected and can do its work, answered in SQL by the feature that keeps agents."""

from abc import ABC, abstractmethod
from typing import Any

from sqlalchemy import ColumnElement, false


class Presence(ABC):
    @abstractmethod
    def is_online(self, machine_id: Any) -> ColumnElement[bool]:
        """Whether the agent of this machine is connected."""

    @abstractmethod
    def can(self, machine_id: Any, job_kind: Any) -> ColumnElement[bool]:
        """Whether the agent of this machine is connected and executes jobs of this kind."""


class NoAgents(Presence):
    """For a program without a table of agents: none is ever online."""

    def is_online(self, machine_id: Any) -> ColumnElement[bool]:
        del machine_id
        return false()

    def can(self, machine_id: Any, job_kind: Any) -> ColumnElement[bool]:
        del machine_id, job_kind
        return false()


_answering: list[Presence] = [NoAgents()]
"""One for the whole program, like its tables."""


def answered_by(presence: Presence) -> None:
    """Set who answers. Call this where the tables of agents are declared."""
    _answering[:] = [presence]


def current() -> Presence:
    return _answering[0]
