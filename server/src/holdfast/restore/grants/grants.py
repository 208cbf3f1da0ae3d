"""Creates and removes restore grants."""

from sqlalchemy.orm import Session

from backup_jobs import paths as job_paths
from holdfast.access import audit
from holdfast.access.caller import Caller
from holdfast.access.models import User
from holdfast.agents import store as agents
from holdfast.errors import Unprocessable
from holdfast.machines import store as machines
from holdfast.repositories.archived_paths import ExactPath
from holdfast.restore import errors
from holdfast.restore.destination import normal_destination
from holdfast.restore.grants import store
from holdfast.restore.grants.models import RestoreGrant
from holdfast.restore.grants.place import LOCAL, Place
from holdfast.restore.grants.schemas import NewRestoreGrant, RestoreGrantAnswer


def add(session: Session, caller: Caller, wanted: NewRestoreGrant) -> RestoreGrant:
    """Create a grant, or return an identical existing one. Raise Unprocessable."""
    if (wanted.user_id is None) == (wanted.role is None):
        raise Unprocessable("restore.grant_unclear", "Specify either user_id or role.")
    if wanted.user_id is not None and session.get(User, wanted.user_id) is None:
        raise Unprocessable("restore.unknown_user", "User not found.", user_id=wanted.user_id)
    place = _place(session, wanted)
    given = {"path_b64": wanted.folder.path_b64} if isinstance(wanted.folder, ExactPath) else wanted.folder
    folder = job_paths.to_json(normal_destination(given))
    if known := store.same(session, wanted.user_id, wanted.role, place, folder):
        return known
    grant = RestoreGrant(
        user_id=wanted.user_id,
        role=wanted.role,
        machine_type=place.type,
        ssh_connection_id=place.id if place.type == "ssh" else None,
        agent_machine_id=place.id if place.type == "agent" else None,
        folder=folder if isinstance(folder, str) else dict(folder),
        created_by=caller.username,
    )
    session.add(grant)
    session.flush()
    _record(session, caller, "restore_grant.created", grant)
    return grant


def remove(session: Session, caller: Caller, grant_id: int) -> None:
    """Remove a grant. A restore that has begun continues; one that is still waiting will fail when it begins."""
    grant = store.require(session, grant_id)
    _record(session, caller, "restore_grant.deleted", grant)
    session.delete(grant)


def answers(session: Session, grants: list[RestoreGrant]) -> list[RestoreGrantAnswer]:
    users, ssh_machines, agent_machines = store.names(session)
    return [
        RestoreGrantAnswer.from_row(
            grant,
            username=users.get(grant.user_id or 0),
            machine_id=grant.ssh_connection_id or grant.agent_machine_id,
            machine_name=ssh_machines.get(grant.ssh_connection_id or 0)
            or agent_machines.get(grant.agent_machine_id or 0),
            folder=shown["path"],
            folder_b64=shown.get("path_b64"),
        )
        for grant in grants
        for shown in (job_paths.shown(job_paths.from_json(grant.folder)),)
    ]


def _place(session: Session, wanted: NewRestoreGrant) -> Place:
    if wanted.machine_type == "local":
        if wanted.machine_id is not None:
            raise errors.unsupported_target()
        return LOCAL
    if wanted.machine_id is None:
        raise errors.machine_missing() if wanted.machine_type == "ssh" else errors.agent_missing()
    if wanted.machine_type == "ssh" and machines.get(session, wanted.machine_id) is None:
        raise errors.unknown_machine(wanted.machine_id)
    if wanted.machine_type == "agent" and agents.get(session, wanted.machine_id) is None:
        raise errors.unknown_agent(wanted.machine_id)
    return Place(wanted.machine_type, wanted.machine_id)


def _record(session: Session, caller: Caller, action: str, grant: RestoreGrant) -> None:
    details = {
        "user_id": grant.user_id,
        "role": str(grant.role) if grant.role else None,
        "machine_type": grant.machine_type,
        "machine_id": grant.ssh_connection_id or grant.agent_machine_id,
        "folder": job_paths.shown(job_paths.from_json(grant.folder))["path"],
    }
    audit.record(session, actor=caller, action=action, object_type="restore_grant", object_id=grant.id, details=details)
