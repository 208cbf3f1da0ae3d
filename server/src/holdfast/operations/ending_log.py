"""A line in the service's own log for each operation that failed or completed with warnings."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import structlog
from sqlalchemy.orm import Session

from holdfast.operations.status import Status
from holdfast.storage.session import after_commit

log = structlog.get_logger("holdfast.operations")
MESSAGES = {
    Status.FAILED: "an operation failed",
    Status.COMPLETED_WITH_WARNINGS: "an operation completed with warnings",
}


def log_ending(session: Session, status: Status, *, values: Mapping[str, Any], **named: Any) -> None:
    """Write the line once the end is durable. Does nothing for any other status."""
    message = MESSAGES.get(status)
    if message is None:
        return
    warnings = values.get("warnings") or []
    details = {
        "key": values.get("error_key"),
        "sentence": values.get("error_message"),
        "warnings": len(warnings) or None,
        "first_warning": (warnings[0].get("message") or warnings[0].get("path")) if warnings else None,
    }
    known = {name: value for name, value in {**named, **details}.items() if value is not None}
    after_commit(session, partial(log.warning, message, **known))
