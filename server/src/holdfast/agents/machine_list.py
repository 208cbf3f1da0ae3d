"""A list of all machines, with a summary of what each protects."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Integer, case, func, literal, select
from sqlalchemy.orm import Session

from backup_agent import AGENT_VERSION
from backup_engine.frozen import frozen
from holdfast.agents import store
from holdfast.agents.fleet import Fleet
from holdfast.agents.models import AgentMachine
from holdfast.agents.present import machine_item, ssh_machine_item
from holdfast.agents.schemas import MachineItem, MachineRow
from holdfast.machines import store as ssh_machines
from holdfast.machines.models import SshConnection
from holdfast.operations.models import Operation
from holdfast.operations.status import Status
from holdfast.repositories.models import Repository

Key = tuple[str, int]


@frozen
class Protects:
    """A summary of a machine's repositories."""

    repositories: int = 0
    last_backup_at: datetime | None = None
    running: int = 0


NOTHING = Protects()


def every_machine(session: Session, fleet: Fleet) -> list[MachineItem]:
    agents = [machine_item(agent, fleet) for agent in store.every(session)]
    return [*agents, *map(ssh_machine_item, ssh_machines.every(session))]


def rows(session: Session, fleet: Fleet) -> list[MachineRow]:
    """Like `every_machine`, with more details."""
    known = _protected(session)
    return [
        *(_of_agent(agent, fleet, known) for agent in store.every(session)),
        *(_of_connection(connection, known) for connection in ssh_machines.every(session)),
    ]


def _of_agent(agent: AgentMachine, fleet: Fleet, known: Mapping[Key, Protects]) -> MachineRow:
    return _row(
        machine_item(agent, fleet),
        known,
        agent_version=agent.agent_version,
        update_available=agent.agent_version != AGENT_VERSION,
        engine_versions=[str(one.get("version", "")) for one in agent.engine_versions or ()],
        clock_skew_seconds=fleet.skew(agent),
        trouble=agent.last_error if agent.status != "online" else None,
    )


def _of_connection(connection: SshConnection, known: Mapping[Key, Protects]) -> MachineRow:
    return _row(
        ssh_machine_item(connection),
        known,
        agent_version=None,
        update_available=False,
        engine_versions=[connection.engine_version] if connection.engine_version else [],
        clock_skew_seconds=None,
        trouble=_failure(connection),
    )


def _failure(connection: SshConnection) -> str | None:
    """The message of the first step that failed in the connection's last test."""
    steps = (connection.last_test or {}).get("steps") or ()
    return next((str(step["message"]) for step in steps if step.get("verdict") != "ok" and step.get("message")), None)


def _row(item: MachineItem, known: Mapping[Key, Protects], **more: Any) -> MachineRow:
    protects = known.get((item.connection_type, item.id), NOTHING)
    return MachineRow(
        **item.model_dump(),
        **more,
        key=f"{item.connection_type}:{item.id}",
        repository_count=protects.repositories,
        last_backup_at=protects.last_backup_at,
        running=protects.running,
    )


def _protected(session: Session) -> dict[Key, Protects]:
    """Summarise, in one query, each machine's repositories and the operations running on them.

    A repository belongs to the machine whose engine opens it.
    """
    running = (
        select(Operation.repository_id, func.count().label("running"))
        .where(Operation.status == Status.RUNNING, Operation.executor != "inline")
        .group_by(Operation.repository_id)
        .subquery()
    )
    machine = case(
        (Repository.execution_target == "agent", Repository.agent_machine_id),
        (Repository.execution_target == "ssh", Repository.ssh_connection_id),
        else_=literal(None, Integer),
    ).label("machine")
    statement = (
        select(
            Repository.execution_target,
            machine,
            func.count(),
            func.max(Repository.last_backup),
            func.sum(func.coalesce(running.c.running, 0)),
        )
        .outerjoin(running, running.c.repository_id == Repository.id)
        .where(machine.is_not(None))
        .group_by(Repository.execution_target, machine)
    )
    return {(row[0], row[1]): Protects(row[2], row[3], int(row[4])) for row in session.execute(statement)}
