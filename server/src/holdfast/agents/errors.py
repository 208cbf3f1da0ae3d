"""Errors of requests about agents."""

from typing import Any

from holdfast.errors import Conflict, Forbidden, NotFound, TooLarge, Unauthenticated, Unavailable, Unprocessable
from holdfast.operations.lanes import Verdict


def credential_missing() -> Unauthenticated:
    return Unauthenticated("agents.credential_missing", "This route takes the credential of an agent.")


def credential_invalid() -> Unauthenticated:
    return Unauthenticated("agents.credential_invalid", "The agent's credential is not valid.")


def enrollment_invalid() -> Unauthenticated:
    return Unauthenticated("agents.enrollment_invalid", "The enrollment token is unknown, used, expired or revoked.")


def revoked(status: str) -> Forbidden:
    return Forbidden("agents.revoked", "An administrator has shut this agent out.", status=status)


def foreign_agent_id() -> Forbidden:
    return Forbidden("agents.foreign_agent_id", "agent_id does not match the credential.")


def unknown_agent(agent: Any) -> NotFound:
    return NotFound("agents.not_found", "There is no such agent.", agent=agent)


def unknown_token(token_id: int) -> NotFound:
    return NotFound("agents.enrollment_token_not_found", "There is no such enrollment token.", token_id=token_id)


def unknown_job(job_id: int) -> NotFound:
    return NotFound("agents.job_not_found", "There is no such job.", job_id=job_id)


def not_claimed(job_id: int, status: str) -> Conflict:
    return Conflict("agents.not_claimed", "The job has not been claimed.", job_id=job_id, status=status)


def not_running(job_id: int, status: str) -> Conflict:
    return Conflict("agents.not_running", "The job does not run; claim it first.", job_id=job_id, status=status)


def job_finished(job_id: int, status: str) -> Conflict:
    return Conflict("agents.job_finished", "The job has ended and cannot be claimed.", job_id=job_id, status=status)


def not_yet(job_id: int, verdict: Verdict) -> Conflict:
    reason = str(verdict.reason)
    return Conflict(
        "agents.not_yet", "The job may not start yet.", job_id=job_id, reason=reason, behind_id=verdict.behind_id
    )


def cancel_not_requested(job_id: int) -> Conflict:
    return Conflict("agents.cancel_not_requested", "No cancel of this job was requested.", job_id=job_id)


def parts_missing(job_id: int, parts: int) -> Conflict:
    return Conflict("agents.parts_missing", "Parts of the result have not arrived.", job_id=job_id, parts=parts)


def too_many_lines(most: int) -> TooLarge:
    return TooLarge("agents.too_many_lines", f"At most {most} log lines at once.", maximum=most)


def too_many_gaps(job_id: int) -> Conflict:
    return Conflict("agents.log_gaps", "The log lines are numbered with too many gaps.", job_id=job_id)


def too_many_parts(job_id: int, most: int) -> TooLarge:
    return TooLarge(
        "agents.too_many_parts", f"The result of a job may have at most {most} parts.", job_id=job_id, maximum=most
    )


def parts_too_large(job_id: int, most: int) -> TooLarge:
    return TooLarge(
        "agents.parts_too_large",
        f"The parts of a job's result may take at most {most} bytes of memory; nothing of this result is used.",
        job_id=job_id,
        maximum=most,
    )


def call_over() -> NotFound:
    return NotFound("agents.call_over", "The caller no longer waits for this call.")


def offline(name: str) -> Unavailable:
    return Unavailable("agents.offline", f"The agent {name} is offline; try again when it is back.", retry_after=30)


def too_old_for_calls(name: str) -> Unprocessable:
    return Unprocessable("agents.too_old", f"The agent {name} is too old for this request; update it.")
