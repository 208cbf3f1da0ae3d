"""All statements on restore grants."""

from sqlalchemy import ColumnElement, or_, select
from sqlalchemy.orm import Session

from backup_jobs.paths import Json, from_json
from holdfast.access.models import User
from holdfast.access.roles import Role
from holdfast.agents.models import AgentMachine
from holdfast.errors import NotFound
from holdfast.machines.models import SshConnection
from holdfast.restore.grants.models import RestoreGrant
from holdfast.restore.grants.place import Place


def every(session: Session) -> list[RestoreGrant]:
    return list(session.scalars(select(RestoreGrant).order_by(RestoreGrant.id)))


def require(session: Session, grant_id: int) -> RestoreGrant:
    found = session.get(RestoreGrant, grant_id)
    if found is None:
        raise NotFound("restore.grant_not_found", "Grant not found.", grant_id=grant_id)
    return found


def same(session: Session, user_id: int | None, role: Role | None, place: Place, folder: Json) -> RestoreGrant | None:
    """Return an identical grant, if there is one."""
    who = RestoreGrant.user_id == user_id if user_id is not None else RestoreGrant.role == role
    found = session.scalars(select(RestoreGrant).where(who, *_of_place(place)))
    return next((grant for grant in found if from_json(grant.folder) == from_json(folder)), None)


def folders(session: Session, user_id: int, role: Role, place: Place) -> list[bytes]:
    """Return the folders of a machine that are granted to a user with this role."""
    roles = [each for each in Role if each <= role]
    who = or_(RestoreGrant.user_id == user_id, RestoreGrant.role.in_(roles))
    return [from_json(folder) for folder in session.scalars(select(RestoreGrant.folder).where(who, *_of_place(place)))]


def names(session: Session) -> tuple[dict[int, str], dict[int, str], dict[int, str]]:
    """Return the names of the users, ssh machines and agents in grants, by id."""
    user_ids = select(RestoreGrant.user_id)
    users = session.execute(select(User.id, User.username).where(User.id.in_(user_ids)))
    machines = session.execute(
        select(SshConnection.id, SshConnection.name).where(SshConnection.id.in_(select(RestoreGrant.ssh_connection_id)))
    )
    agents = session.execute(
        select(AgentMachine.id, AgentMachine.name).where(AgentMachine.id.in_(select(RestoreGrant.agent_machine_id)))
    )
    return {row[0]: row[1] for row in users}, {row[0]: row[1] for row in machines}, {row[0]: row[1] for row in agents}


def _of_place(place: Place) -> tuple[ColumnElement[bool], ...]:
    return (
        RestoreGrant.machine_type == place.type,
        RestoreGrant.ssh_connection_id.is_not_distinct_from(place.id if place.type == "ssh" else None),
        RestoreGrant.agent_machine_id.is_not_distinct_from(place.id if place.type == "agent" else None),
    )
