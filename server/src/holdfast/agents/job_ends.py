"""The end of an agent's job, as its kind concludes it from a report."""

from typing import Any

import structlog
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from holdfast.operations import transitions
from holdfast.operations.job_work import JobReport
from holdfast.operations.kinds import Outcome, Registry, reported
from holdfast.operations.models import Operation

log = structlog.get_logger("holdfast.agents")


def finish(
    session: Session,
    registry: Registry,
    operation: Operation,
    report: JobReport,
    progress: dict[str, Any] | None = None,
) -> None:
    """End an operation as its kind concludes from the report. A report that cannot be stored still ends it."""
    kind = registry.kinds.get(operation.kind)
    outcome = reported(report)
    try:
        with session.begin_nested():
            if kind is not None and kind.agent is not None:
                outcome = kind.agent.conclude(session, operation, report)
            if outcome.record is not None:
                outcome.record(session)
            _end(session, registry, operation, outcome, progress)
    except (SQLAlchemyError, ValueError, TypeError, LookupError, ArithmeticError):
        log.exception("a report could not be used in full", operation_id=operation.id, kind=operation.kind)
        _end(session, registry, operation, reported(report), progress)


def _end(
    session: Session, registry: Registry, operation: Operation, outcome: Outcome, progress: dict[str, Any] | None
) -> None:
    transitions.finish(
        session,
        registry,
        operation,
        outcome.status,
        error_key=outcome.error_key,
        error_message=outcome.error_message,
        skip_reason=outcome.skip_reason,
        result=dict(outcome.result) if outcome.result is not None else None,
        warnings=[dict(warning) for warning in outcome.warnings],
        archive_name=outcome.archive_name,
        progress=progress,
        had_effects=outcome.had_effects,
    )
