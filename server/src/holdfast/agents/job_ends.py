"""Ends an agent's job, as its kind concludes from the report."""

from typing import Any

import structlog
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from holdfast.operations import transitions
from holdfast.operations.job_work import JobReport, reported
from holdfast.operations.kinds import Registry
from holdfast.operations.models import Operation

log = structlog.get_logger("holdfast.agents")


def finish(
    session: Session,
    registry: Registry,
    operation: Operation,
    report: JobReport,
    progress: dict[str, Any] | None = None,
) -> None:
    """End an operation with the outcome that its kind concludes from the report.

    If that outcome cannot be stored, the operation still ends, with what the report itself says.
    """
    kind = registry.kinds.get(operation.kind)
    outcome = reported(report)
    try:
        with session.begin_nested():
            if kind is not None and kind.agent is not None:
                outcome = kind.agent.conclude(session, operation, report)
            if outcome.record is not None:
                outcome.record(session)
            transitions.finish(session, registry, operation, outcome, progress)
    except (SQLAlchemyError, ValueError, TypeError, LookupError, ArithmeticError):
        log.exception("a report could not be used in full", operation_id=operation.id, kind=operation.kind)
        transitions.finish(session, registry, operation, reported(report), progress)
