"""The job kinds implemented in this package, and the frame around each attempt."""

from collections.abc import Callable, Mapping
from typing import Any

from backup_engine.detect import EngineUnsupported
from backup_engine.frozen import frozen
from backup_engine.requests import InvalidRequest
from backup_jobs import backup, break_lock, check, compact, delete, dump, init, list_archives, prune
from backup_jobs.endings import Ended, Failed, Stopped
from backup_jobs.host import Cancelled, Interrupted
from backup_jobs.restore import extract
from backup_jobs.work import EvidenceUnknown, Work, retry_when_interrupted, try_again
from backup_protocol import JobKind


def _again(work: Work[Any], interrupted: Interrupted) -> Ended:
    """Default for work that can simply be repeated."""
    del work
    return retry_when_interrupted(interrupted)


@frozen
class Body:
    """Implementation of a job kind. `run` makes one attempt; `interrupted` decides what follows an unknown engine
    ending.

    After a restart of the host, both may be called again for the same attempt.
    """

    run: Callable[[Any], Ended]
    """Takes a `Work` with a block of the matching kind. A host may pass a subclass to bodies of its own."""
    interrupted: Callable[[Any, Interrupted], Ended] = _again


BODIES: Mapping[JobKind, Body] = {
    JobKind.BACKUP_CREATE: Body(backup.run, backup.interrupted),
    JobKind.REPOSITORY_INIT: Body(init.run, init.interrupted),
    JobKind.REPOSITORY_CHECK: Body(check.run),
    JobKind.REPOSITORY_PRUNE: Body(prune.run, prune.interrupted),
    JobKind.REPOSITORY_COMPACT: Body(compact.run),
    JobKind.REPOSITORY_BREAK_LOCK: Body(break_lock.run),
    JobKind.ARCHIVE_DELETE: Body(delete.run, delete.interrupted),
    JobKind.ARCHIVES_LIST: Body(list_archives.run),
    JobKind.RESTORE_EXTRACT: Body(extract.run, extract.interrupted),
    JobKind.BACKUP_DUMP: Body(dump.run, dump.interrupted),
}


def attempt(body: Body, work: Work[Any]) -> Ended:
    """Run one attempt at a job to its end. Raise Stopping if the host stops first."""
    try:
        try:
            return body.run(work)
        except Interrupted as interrupted:
            return body.interrupted(work, interrupted)
    except Interrupted as interrupted:
        return retry_when_interrupted(interrupted)
    except EvidenceUnknown as unknown:
        return try_again(work.host, unknown.key, unknown.message)
    except Cancelled:
        return Stopped(details=work.host.earlier)
    except (InvalidRequest, EngineUnsupported) as error:
        return Failed(error.key, str(error))
