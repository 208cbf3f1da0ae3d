"""Which operations a caller may see and act on."""

from sqlalchemy.orm import Session

from holdfast.access import rights
from holdfast.access.caller import Caller, forbidden
from holdfast.access.roles import Role
from holdfast.errors import NotFound
from holdfast.operations import pages
from holdfast.operations.models import Operation


def unknown(operation_id: int) -> NotFound:
    return NotFound("operations.not_found", "Operation not found.", operation_id=operation_id)


def require(session: Session, caller: Caller, operation_id: int, role: Role, *kinds: str) -> Operation:
    """Return the operation if the caller may see it and has the role. Raise NotFound or Forbidden.

    Operations without a repository, and those of a removed repository, are visible only to administrators.
    """
    operation = pages.get(session, operation_id)
    if operation is None or (kinds and operation.kind not in kinds):
        raise unknown(operation_id)
    if caller.role is Role.ADMIN:
        return operation
    if operation.repository_id is None:
        raise unknown(operation_id)
    held = rights.repository_role(session, caller, operation.repository_id)
    if held is None or not pages.repository_exists(session, operation.repository_id):
        raise unknown(operation_id)
    if held < role:
        raise forbidden(role)
    return operation
