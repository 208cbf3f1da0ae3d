"""Starts installations."""

from sqlalchemy.orm import Session

from holdfast.access import audit
from holdfast.access.caller import Caller, forbidden
from holdfast.access.roles import Role
from holdfast.operations import queue
from holdfast.operations.kinds import Kind
from holdfast.operations.models import Operation
from holdfast.operations.queue import Origin
from holdfast.operations.retrying import origin_of
from holdfast.operations.status import Trigger
from holdfast.packages import store
from holdfast.packages.schemas import InstallParams


def start(session: Session, caller: Caller, kind: Kind, package_id: int, origin: Origin | None = None) -> Operation:
    """Queue an installation with the package's current command. Raise NotFound, or Forbidden if not an admin."""
    if caller.role is not Role.ADMIN:
        raise forbidden(Role.ADMIN)
    package = store.get(session, package_id)
    params = InstallParams(package_id=package.id, install_command=package.install_command)
    origin = origin or Origin(Trigger.MANUAL, caller.user_id, caller.username)
    operation = queue.enqueue(session, kind, params.model_dump(), origin, package_name=package.name)
    details = {"name": package.name, "install_command": package.install_command, "operation_id": operation.id}
    audit.note(session, caller, f"{kind.name}.started", "package", package.id, details)
    return operation


def retry(session: Session, caller: Caller, kind: Kind, failed: Operation) -> Operation:
    package_id = InstallParams.model_validate(failed.params).package_id
    return start(session, caller, kind, package_id, origin_of(caller, failed))
