"""Who may restore where: one rule for starts, previews and the beginning of a restore, on every kind of machine.

Admins restore anywhere. All others restore to the repository's own machine, except to system folders, or into folders
that an admin has granted. Any other request gets the same answer, whether or not the machine exists. Agents protect
their system folders themselves.
"""

from collections.abc import Sequence

from sqlalchemy.orm import Session

from backup_engine.system_folders import is_within, overlaps_system
from holdfast.access.caller import Caller
from holdfast.access.models import User
from holdfast.access.roles import Role
from holdfast.errors import Forbidden, NotFound
from holdfast.operations.models import Operation
from holdfast.repositories import archived_paths
from holdfast.repositories.models import Repository
from holdfast.restore.destination import normal_destination
from holdfast.restore.grants import store
from holdfast.restore.grants.place import LOCAL, Place, own_machine
from holdfast.restore.schemas import RestoreParams


def targets(destination: bytes, paths: Sequence[bytes], *, contents_only: bool) -> list[bytes]:
    """Return where the chosen paths of an archive are restored to: every restored file is at or below one of these."""
    if contents_only or not paths:
        return [destination]
    return [destination.rstrip(b"/") + b"/" + path for path in paths]


def require(session: Session, caller: Caller, repository: Repository, place: Place, wanted: Sequence[bytes]) -> None:
    """Raise NotFound unless the caller may restore the repository's archives to all of these places."""
    if not _allowed(session, caller.user_id, caller.role, repository, place, wanted):
        raise not_found()


def require_still(session: Session, operation: Operation, repository: Repository) -> None:
    """Raise Forbidden if the user who requested a restore has lost the right to it before it begins."""
    if operation.triggered_by_id is None:
        return
    params = RestoreParams.model_validate(operation.params)
    user = session.get(User, operation.triggered_by_id)
    place = _place_of(repository, params)
    wanted = targets(
        normal_destination(params.destination),
        archived_paths.inside_archive(params.paths),
        contents_only=params.restore_layout == "contents_only",
    )
    role = user.role if user is not None and not user.disabled else Role.VIEWER
    if not _allowed(session, operation.triggered_by_id, role, repository, place, wanted):
        raise Forbidden(
            "restore.not_granted",
            "The permission to restore to this folder was withdrawn before the restore began. Nothing was restored.",
        )


def not_found() -> NotFound:
    sentence = "Machine not found, or you are not allowed to restore to this folder on it. An admin can grant access."
    return NotFound("restore.target_not_found", sentence)


def _allowed(
    session: Session, user_id: int, role: Role, repository: Repository, place: Place, wanted: Sequence[bytes]
) -> bool:
    if role is Role.ADMIN:
        return True
    if place == own_machine(repository):
        wanted = [] if place.type == "agent" else [one for one in wanted if overlaps_system(one, here=place == LOCAL)]
    granted = store.folders(session, user_id, role, place) if wanted else []
    return all(any(is_within(one, folder) for folder in granted) for one in wanted)


def _place_of(repository: Repository, params: RestoreParams) -> Place:
    if params.destination_type == "agent" and params.destination_machine_id is None:
        return own_machine(repository)
    return Place(params.destination_type, params.destination_machine_id)
