"""Every kind of job that this agent can do, each in a file of its own."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from backup_agent.job_work import Ended, TryAgain, Work
from backup_agent.jobs import (
    archive_delete,
    archives_list,
    backup_create,
    repository_break_lock,
    repository_check,
    repository_compact,
    repository_init,
    repository_prune,
    restore_extract,
    restore_receive,
)
from backup_agent.steps import Interrupted
from backup_protocol import JobKind


@dataclass(frozen=True, slots=True)
class Kind:
    """`run` does one attempt, `interrupted` decides what follows when nobody knows how the engine ended.

    Both may be called again for the same attempt after a restart of the agent. Both may raise TryAgain.
    """

    run: Callable[[Work], Ended]
    interrupted: Callable[[Work, Interrupted], Ended]
    needs_engine: bool = True


def again(work: Work, interrupted: Interrupted) -> Ended:
    """For work that may simply be done again."""
    del work
    raise TryAgain("operations.interrupted", interrupted.sentence())


KINDS: Mapping[JobKind, Kind] = {
    JobKind.BACKUP_CREATE: Kind(backup_create.run, backup_create.interrupted),
    JobKind.REPOSITORY_INIT: Kind(repository_init.run, repository_init.interrupted),
    JobKind.REPOSITORY_CHECK: Kind(repository_check.run, again),
    JobKind.REPOSITORY_PRUNE: Kind(repository_prune.run, repository_prune.interrupted),
    JobKind.REPOSITORY_COMPACT: Kind(repository_compact.run, again),
    JobKind.REPOSITORY_BREAK_LOCK: Kind(repository_break_lock.run, again),
    JobKind.ARCHIVE_DELETE: Kind(archive_delete.run, archive_delete.interrupted),
    JobKind.ARCHIVES_LIST: Kind(archives_list.run, again),
    JobKind.RESTORE_EXTRACT: Kind(restore_extract.run, restore_extract.interrupted),
    JobKind.RESTORE_RECEIVE: Kind(restore_receive.run, restore_receive.interrupted, needs_engine=False),
}
