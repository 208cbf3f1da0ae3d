"""Errors of requests about agents."""

from typing import Any

from holdfast.errors import Forbidden, NotFound, Unauthenticated


def credential_invalid() -> Unauthenticated:
    return Unauthenticated("agents.credential_invalid", "The agent's credential is not valid.")


def revoked(status: str) -> Forbidden:
    return Forbidden("agents.revoked", "An administrator has shut this agent out.", status=status)


def unknown_agent(agent: Any) -> NotFound:
    return NotFound("agents.not_found", "Agent not found.", agent=agent)


def unknown_token(token_id: int) -> NotFound:
    return NotFound("agents.enrollment_token_not_found", "Enrollment token not found.", token_id=token_id)


def unknown_job(job_id: int) -> NotFound:
    return NotFound("agents.job_not_found", "Job not found.", job_id=job_id)


def call_over() -> NotFound:
    return NotFound("agents.call_over", "The caller is no longer waiting for this call.")
