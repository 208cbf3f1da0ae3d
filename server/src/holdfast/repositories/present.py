"""A repository as clients see it, built from the store alone."""

from collections.abc import Sequence

from sqlalchemy.orm import Session

from holdfast.access.caller import Caller
from holdfast.operations import pages
from holdfast.operations.models import Operation
from holdfast.repositories import actions
from holdfast.repositories.actions import Allowed
from holdfast.repositories.agent_target import setup_state
from holdfast.repositories.models import Repository
from holdfast.repositories.schemas import RepositoryAnswer, Retention, RunningOperation, SyncJob

MIRROR_KINDS = ("sync", "hydrate")
"""Kinds of the cloud mirror, known here only by name."""

MADE = (
    "has_passphrase",
    "retention",
    "running_operation",
    "latest_sync_job",
    "setup_state",
    "my_role",
    "actions",
    "refusals",
)
COPIED = [name for name in RepositoryAnswer.model_fields if name not in MADE]


def present(session: Session, caller: Caller, repositories: Sequence[Repository]) -> list[RepositoryAnswer]:
    ids = [repository.id for repository in repositories]
    running = pages.running_of_repositories(session, ids)
    mirrored = pages.latest_of_repositories(session, ids, MIRROR_KINDS)
    allowed = actions.on_repositories(session, caller, repositories)
    return [
        _one(
            repository,
            running.get(repository.id),
            mirrored.get(repository.id),
            setup_state(session, repository),
            allowed[repository.id],
        )
        for repository in repositories
    ]


def _one(
    repository: Repository, running: Operation | None, mirrored: Operation | None, setup: str, allowed: Allowed
) -> RepositoryAnswer:
    return RepositoryAnswer(
        **{name: getattr(repository, name) for name in COPIED},
        has_passphrase=repository.passphrase is not None,
        retention=Retention(**repository.retention),
        running_operation=_running(running) if running else None,
        latest_sync_job=_sync_job(mirrored) if mirrored else None,
        setup_state=setup,
        my_role=allowed.role,
        actions=allowed.actions,
        refusals=allowed.refusals,
    )


def _running(operation: Operation) -> RunningOperation:
    return RunningOperation.from_row(operation)


def _sync_job(operation: Operation) -> SyncJob:
    """`triggered_by` is the trigger of the operation; `initial` marks the first sync of a mirror."""
    return SyncJob.from_row(
        operation, triggered_by=operation.trigger, operation="hydrate" if operation.kind == "hydrate" else "sync"
    )
