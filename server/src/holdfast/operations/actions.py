"""Which actions on an operation the caller may take now, and why the others are refused."""

from sqlalchemy.orm import Session

from holdfast.access import permissions, rights
from holdfast.access.caller import Caller
from holdfast.access.permissions import Action
from holdfast.access.roles import Role
from holdfast.operations.models import Operation
from holdfast.operations.status import ACTIVE, SUCCEEDED, Status

CANCEL = Action("cancel", "POST /api/operations/{operation_id}/cancel", Role.OPERATOR, needs_login=True)
DELETE = Action("delete", "DELETE /api/activity/{job_type}/{operation_id}", Role.ADMIN)
DOWNLOAD_LOG = "download_log"
RETRY = Action("retry", "POST /api/operations/{operation_id}/retry", Role.OPERATOR, needs_login=True)
OF_AN_OPERATION = (CANCEL, RETRY, DELETE)


def on_operation(
    session: Session, caller: Caller, operation: Operation, *, can_repeat: bool
) -> tuple[list[str], dict[str, str]]:
    """Return the allowed actions, and for each of the others the error key of its refusal."""
    held = _role(session, caller, operation)
    refused = permissions.refusals(OF_AN_OPERATION, caller, held)
    by_state = _refused_by_state(operation)
    if not can_repeat or operation.status in SUCCEEDED:
        by_state.setdefault(RETRY.name, "operations.not_retryable")
    for name, key in by_state.items():
        refused.setdefault(name, key)
    names = (CANCEL.name, RETRY.name, DELETE.name, DOWNLOAD_LOG)
    return [name for name in names if name not in refused], refused


def _role(session: Session, caller: Caller, operation: Operation) -> Role:
    if caller.role is Role.ADMIN:
        return Role.ADMIN
    return rights.repository_role(session, caller, operation.repository_id or 0) or Role.VIEWER


def _refused_by_state(operation: Operation) -> dict[str, str]:
    if Status(operation.status) in ACTIVE:
        return {
            RETRY.name: "operations.still_active",
            DELETE.name: "operations.still_active",
            DOWNLOAD_LOG: "logs.still_running",
        }
    finished = {CANCEL.name: "operations.already_finished"}
    return finished if operation.log_file is not None else {**finished, DOWNLOAD_LOG: "logs.not_stored"}
