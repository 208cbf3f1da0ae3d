"""Shared by syncs and hydrates: their mirror, and runs of rclone with their results."""

from collections.abc import Sequence
from pathlib import Path

from backup_engine.frozen import frozen
from backup_engine.outcome import Accumulator
from backup_engine.rclone import Trouble, trouble_of
from backup_engine.redact import Redactor
from backup_jobs.host import Interrupted
from holdfast.errors import Unavailable
from holdfast.mirror import errors, store
from holdfast.mirror.layouts import LAYOUTS, Layout
from holdfast.mirror.models import RcloneRemote, RepositoryMirror
from holdfast.mirror.rclone import PATIENT, WITH_STATISTICS, Access, place
from holdfast.mirror.rclone_log import Progress, RcloneLog
from holdfast.mirror.remotes import Remotes
from holdfast.operations.context import Context, ProgramResult
from holdfast.operations.outcome import Outcome
from holdfast.operations.status import Status
from holdfast.repositories import errors as repository_errors
from holdfast.repositories import store as repositories
from holdfast.repositories.models import Repository

STOPPED_BY_SIGNAL = frozenset({128 + 2, 128 + 15})
"""rclone's exit codes after a signal that it can catch."""
MOST_PROBLEMS = 50


@frozen
class Run:
    """One finished run of rclone."""

    result: ProgramResult
    log: RcloneLog

    @property
    def succeeded(self) -> bool:
        return self.result.exit.code == 0

    @property
    def trouble(self) -> Trouble:
        return trouble_of(self.log.reasons)

    def bad_ending(self) -> Outcome | None:
        """The outcome if the run did not succeed, otherwise None."""
        if self.succeeded:
            return None
        if self.result.was_cancelled:
            return Outcome(Status.CANCELLED)
        return Outcome(
            Status.FAILED,
            self.trouble.key,
            self.trouble.sentence,
            result={"problems": self.log.complaints[:MOST_PROBLEMS], "return_code": self.result.exit.code},
        )


@frozen
class MirrorWork:
    context: Context
    remotes: Remotes
    repository: Repository
    mirror: RepositoryMirror
    remote: RcloneRemote
    access: Access
    layout: Layout

    @staticmethod
    def open(remotes: Remotes, context: Context) -> "MirrorWork":
        """Open the mirror of an operation for one attempt.

        Raise NotFound if the repository, its mirror or the remote is gone, SecretUnreadable if its key is. Raise
        Unavailable, which leads to another attempt, if the mirror's place was changed during this one.
        """
        with context.database.reading() as session:
            repository = repositories.get(session, context.operation.repository_id or 0)
            if repository is None:
                raise repository_errors.unknown(context.operation.repository_id or 0)
            mirror = store.require_mirror(session, repository.id)
            remote = store.remote(session, mirror.remote_id)
        place_now = {"remote": remote.uuid, "since": remote.updated_at.isoformat(), "path": mirror.path}
        if context.once("place", lambda: place_now) != place_now:
            # Steps that have already ended were about another place.
            raise Unavailable("mirror.settings_changed", "The mirror's location was changed while it was in use.")
        access = remotes.access(remote)
        return MirrorWork(context, remotes, repository, mirror, remote, access, LAYOUTS[repository.engine_version])

    @property
    def source(self) -> Path:
        return Path(self.repository.path)

    @property
    def place(self) -> str:
        return place(self.mirror.path)

    @property
    def shown_place(self) -> str:
        """The mirror's place, as shown to users."""
        return f"{self.remote.name}:{self.mirror.path}"

    def transfer(self, name: str, arguments: Sequence[str], share: tuple[float, float], message: str) -> Run:
        """A run that transfers much data.

        `share` is its part of the whole operation, as start and end percentages.
        """
        timetable = getattr(self.context.params, "bandwidth", None)
        bandwidth = bandwidth_arguments(self.mirror.bandwidth_limit_kib, timetable)
        start, end = share

        def report(progress: Progress) -> None:
            done = progress.bytes / progress.total_bytes if progress.total_bytes else 0.0
            self.context.report(
                progress_percent=round(start + (end - start) * min(1.0, done), 1),
                current=progress.bytes,
                total=progress.total_bytes,
                speed=round(progress.speed),
                estimated_time_remaining=progress.eta_seconds,
                message=message,
            )

        self.context.report(progress_percent=start, message=message, speed=None, estimated_time_remaining=None)
        log = RcloneLog(Redactor(self.access.secrets.values()), report)
        return self._run(name, (*arguments, *WITH_STATISTICS, *PATIENT, *bandwidth), log)

    def ask(self, name: str, arguments: Sequence[str]) -> Run:
        """A short run whose output is read."""
        log = RcloneLog(Redactor(self.access.secrets.values()), is_quiet=True)
        return self._run(name, (*arguments, "--use-json-log", *PATIENT), log)

    def _run(self, name: str, arguments: Sequence[str], log: RcloneLog) -> Run:
        command = self.remotes.rclone.command(arguments, self.access)
        result = self.context.program_step(name, command, log.on_line)
        if result.exit.exec_error is not None:
            raise errors.not_answering("it could not be started.")
        if result.exit.code in STOPPED_BY_SIGNAL and not result.was_cancelled:
            raise Interrupted(name, Accumulator())
        return Run(result, log)


def bandwidth_arguments(limit: int | None, timetable: Sequence[tuple[str, int | None]] | None) -> tuple[str, ...]:
    """rclone's arguments for the mirror's own limit, or for a schedule's where that is lower."""
    if not timetable:
        return ("--bwlimit", f"{limit}k") if limit else ()
    entries = []
    for since, planned in timetable:
        known = [value for value in (limit, planned) if value]
        entries.append(f"{since},{min(known)}k" if known else f"{since},off")
    return ("--bwlimit", " ".join(entries))
