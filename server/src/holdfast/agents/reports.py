"""Convert an agent's message about the end of a job to the kernel's report, without secrets."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from backup_engine.causes import SENTENCES
from backup_engine.redact import Redactor
from holdfast.agents.schemas import CanceledBody, CompleteBody, FailBody, ResultBody
from holdfast.kit.text import storable
from holdfast.operations.job_work import JobReport
from holdfast.operations.status import Status

FAILED = "engine.failed"
DEEPEST = 30
"""Maximum depth of nested values that is kept."""
Body = CompleteBody | FailBody | CanceledBody
Items = Sequence[Mapping[str, Any]] | None


def report_of(body: Body, items: Items, redactor: Redactor) -> JobReport:
    """Build the report from the message that ends a job and the parts of its result, without secrets."""
    result = body.result or ResultBody()
    match body:
        case CompleteBody():
            report = JobReport(completed(result.return_code), result.return_code, **_of_result(result, items))
        case FailBody():
            key = body.error_key or FAILED
            message = body.error_message.strip() or SENTENCES.get(key) or SENTENCES[FAILED]
            code = body.return_code if body.return_code is not None else _code(body.result)
            report = JobReport(Status.FAILED, code, key, message, **_of_result(result, items))
        case CanceledBody():
            code = body.return_code if body.return_code is not None else _code(body.result)
            report = JobReport(Status.CANCELLED, code, **_of_result(result, items))
    return cleaned(report, redactor)


def completed(return_code: int) -> Status:
    """The status of a job that the agent reports as done; any code other than 0 means warnings."""
    return Status.COMPLETED if return_code == 0 else Status.COMPLETED_WITH_WARNINGS


def _code(result: ResultBody | None) -> int | None:
    return (result.return_code or None) if result is not None else None


def _of_result(result: ResultBody, items: Items) -> dict[str, Any]:
    return {
        "archive_name": result.archive_name or None,
        "stats": result.stats.model_dump(exclude_none=True) if result.stats else {},
        "warnings": tuple(_warning(warning) for warning in result.warnings),
        "details": result.details or {},
        "items": tuple(items) if items is not None else None,
    }


def _warning(warning: Mapping[str, Any]) -> dict[str, Any]:
    path = warning.get("path")
    return {"path": str(path) if path is not None else None, "message": str(warning.get("message", ""))}


def cleaned(report: JobReport, redactor: Redactor) -> JobReport:
    def clean(value: Any) -> Any:
        return cleaned_value(value, redactor)

    return JobReport(
        status=report.status,
        return_code=report.return_code,
        error_key=report.error_key,
        error_message=clean(report.error_message),
        archive_name=clean(report.archive_name),
        stats=report.stats,
        warnings=tuple(clean(report.warnings)),
        details=clean(report.details),
        items=tuple(clean(report.items)) if report.items is not None else None,
    )


def cleaned_value(value: Any, redactor: Redactor, depth: int = 0) -> Any:
    """Return a value without secrets that any store can hold; values that cannot be stored become None."""
    if depth > DEEPEST or (isinstance(value, float) and not math.isfinite(value)):
        return None
    if isinstance(value, str):
        return storable(redactor.redact(value))
    if isinstance(value, Mapping):
        return {
            storable(redactor.redact(str(key))): cleaned_value(item, redactor, depth + 1) for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [cleaned_value(item, redactor, depth + 1) for item in value]
    return value
