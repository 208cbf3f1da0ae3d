"""Errors of repositories."""

from dataclasses import asdict

from backup_engine.causes import LOCKED, OLDER, REPLACED, SENTENCES
from backup_engine.outcome import Outcome
from holdfast.errors import Conflict, HoldfastError, Locked, NotFound, Unprocessable


def unknown(repository_id: int) -> NotFound:
    return NotFound("repository.not_found", "Repository not found.", repository_id=repository_id)


def not_registered(path: str) -> NotFound:
    del path  # not repeated: the sender knows it, and readers of logs do not need it
    sentence = "No repository is registered at this path. List the repositories, or import this one."
    return NotFound("repository.not_registered", sentence)


def path_taken() -> Conflict:
    return Conflict("repository.path_taken", "A repository is already registered at this path.")


def path_ambiguous(path: str) -> Conflict:
    del path
    return Conflict(
        "repository.path_ambiguous",
        "Several machines have a repository at this path; use the repository's id.",
    )


def operation_running(operation_id: int) -> Conflict:
    return Conflict(
        "repository.operation_running",
        "An operation of this repository is running; wait for it or cancel it first.",
        operation_id=operation_id,
    )


def refused_by_engine(outcome: Outcome, *, passphrase_given: bool = True) -> HoldfastError:
    """Turn a failed engine call into the error of its request."""
    key = outcome.error_key or "engine.failed"
    message = outcome.message or "The engine refused."
    if (
        key == "engine.passphrase_wrong" and not passphrase_given
    ):  # the engine was given a random one to keep it from prompting
        key = "engine.passphrase_missing"
        message = SENTENCES[key]
    if key == LOCKED:
        return Locked(key, message, retry_after=10, holders=[asdict(holder) for holder in outcome.lock_holders])
    if key in (REPLACED, OLDER):
        return Conflict(key, message)
    return Unprocessable(key, message)


def agent_unable(agent_machine_id: int | None, job_kind: str) -> Unprocessable:
    sentence = (
        "This agent has not reported the required capability. Create the repository on its machine with the "
        "engine itself and import it; its first backup proves that it opens."
    )
    return Unprocessable("repository.agent_unable", sentence, agent_machine_id=agent_machine_id, capability=job_kind)
