"""A machine as the target of restores: the service's own, an ssh machine or an agent's."""

from typing import Literal

from backup_engine.frozen import frozen
from holdfast.repositories.location import runs_on
from holdfast.repositories.models import Repository


@frozen
class Place:
    type: Literal["local", "ssh", "agent"]
    id: int | None = None
    """The id of the ssh connection or the agent."""


LOCAL = Place("local")


def own_machine(repository: Repository) -> Place:
    """Return the machine whose engine opens the repository, wherever its files are."""
    if repository.execution_target == "agent":
        return Place("agent", repository.agent_machine_id)
    machine_id = runs_on(repository)
    return LOCAL if machine_id is None else Place("ssh", machine_id)
