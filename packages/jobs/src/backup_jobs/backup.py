"""`backup.create`: back up the source paths into one archive."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

from backup_engine import missing_sources
from backup_engine.command import Command
from backup_engine.frozen import frozen
from backup_engine.outcome import Accumulator
from backup_engine.requests import CreateRequest, DeleteArchiveRequest, ListArchivesRequest
from backup_engine.results import ArchiveInfo, CreateResult, GarbledOutput, parse_create_result
from backup_jobs.archive_keys import key_in
from backup_jobs.archives import Info, archives_now, described, document, info_now
from backup_jobs.endings import Completed, Ended, Failed, Stopped, TryAgain
from backup_jobs.host import Interrupted, Step
from backup_jobs.progress import BackupProgress
from backup_jobs.services import NotStopped
from backup_jobs.sources import Exclusions
from backup_jobs.work import (
    INTERRUPTED,
    LOCKED,
    EvidenceUnknown,
    Work,
    ended_without_success,
    readable,
    retry_when_interrupted,
    try_again,
    warnings_of,
)
from backup_protocol import BackupBlock

STEP = "create"
BEFORE, AFTER = "evidence-before", "evidence"
"""Steps that query the repository before a further attempt and after an unclear ending. They are separate steps because
the two answers may differ.
"""
DELETE_TRIES = 3
MAY_COME_AFTER_THE_ARCHIVE = frozenset(
    {"engine.failed", "engine.disk_full", "engine.permission_denied", "engine.unreachable", "engine.damaged"}
)
"""Failures that may happen after the archive is complete, such as a full disk under the engine's cache."""
LEFT_NO_RECORD = "The engine's exit was not recorded, but the repository contains the complete archive."
FAILED_LATE = "The engine failed after the archive was complete; the repository contains it."
STOPPED_LATE = "The engine was stopped after the archive was complete; the repository contains it."
MADE_NOTHING = "The engine reported success but created no archive."
OUTSIDE = "A link leads, or may lead, outside the repository's sources. Only an admin may back up paths outside them."
OWN_PLACES_ONLY = (
    "The sources contain only the service's own data, which backups leave out. To back it up, an admin must add it to "
    "the repository's sources and confirm."
)


def run(work: Work[BackupBlock]) -> Ended:
    return BackupAttempt(work).run()


def interrupted(work: Work[BackupBlock], interrupted: Interrupted) -> Ended:
    return BackupAttempt(work).interrupted(interrupted)


@frozen
class Found:
    """The job's archive as shown by the repository; `info` is None if it could not be read."""

    archive: ArchiveInfo
    info: Info | None

    @property
    def stats(self) -> dict[str, Any]:
        archives = self.info.result.archives if self.info else ()
        return asdict(archives[0].stats) if archives else {}


class BackupAttempt:
    """One attempt at a backup. After a restart, every method may be called again for the same attempt."""

    def __init__(self, work: Work[BackupBlock]) -> None:
        self._work = work
        self._host = work.host
        self._block = work.block
        self._exclusions: Exclusions = work.sources.exclusions()
        self._sources = tuple(path for path in work.block.source_paths if path not in self._exclusions.sources)

    def run(self) -> Ended:
        if not self._host.has_begun(STEP):
            if self._host.may_have_run:
                try:
                    found = self._evidence(BEFORE)
                except EvidenceUnknown as unknown:
                    return self._ask_again(unknown)
                if found is not None:
                    return self._by_evidence(found, Accumulator(), LEFT_NO_RECORD)
            if refused := self._refused():
                return refused
        command = self._command()
        self._host.log(*self._exclusions.lines)
        try:
            step, not_started = self._engine_run(command)
        except NotStopped as error:
            return Failed(error.key, error.message)
        return _with_services(_with_storage(self._concluded(step), step), not_started)

    def _engine_run(self, command: Command) -> tuple[Step, list[str]]:
        """Run the engine while the backup's services are stopped. Return a message for each service that did not
        restart.
        """
        services, not_started = self._work.services, []
        if services.names:
            self._host.log(f"Stopping {', '.join(services.names)} for the backup.")
        progress = BackupProgress(self._host, self._work.sources.expected_size)
        try:
            if not self._host.has_begun(STEP):
                services.stop()
            step = self._host.step(STEP, command, on_event=progress.on_event)
        finally:
            not_started = services.restart()
        if services.names:
            not_started = self._host.once("services", lambda: {"not_started": not_started})["not_started"]
            self._host.log(*(not_started or ["The services are running again."]))
        return step, list(not_started)

    def _refused(self) -> Failed | None:
        if self._work.sources.outside():
            return Failed("backup.sources_not_allowed", OUTSIDE)
        if self._block.source_paths and not self._sources:
            return Failed("backup.own_places", OWN_PLACES_ONLY)
        missing = self._work.sources.missing(self._sources)
        return _sources_missing(missing) if self._sources and len(missing) == len(self._sources) else None

    def interrupted(self, interrupted: Interrupted) -> Ended:
        """Handle an unknown ending of the engine by looking for the archive in the repository."""
        try:
            found = self._evidence(AFTER)
        except EvidenceUnknown as unknown:
            return self._ask_again(unknown)
        if found is not None:
            return self._by_evidence(found, interrupted.accumulator, LEFT_NO_RECORD)
        return retry_when_interrupted(interrupted)

    def _command(self) -> Command:
        return self._work.engine.create(self._work.location, self._request())

    def _request(self) -> CreateRequest:
        block = self._block
        return CreateRequest(
            archive_name=block.archive_name,
            source_paths=self._sources,
            exclude_patterns=(*self._exclusions.patterns, *block.exclude_patterns),
            compression=block.compression,
            comment=block.comment,
            custom_flags=block.custom_flags,
            upload_ratelimit_kib=block.upload_ratelimit_kib,
        )

    # --- endings --------------------------------------------------------------------------------------------------

    def _concluded(self, step: Step) -> Ended:
        bad = ended_without_success(self._host, step)
        if isinstance(bad, Stopped):
            return self._stopped(step, bad)
        if isinstance(bad, Failed):
            return self._failed(step, bad)
        if bad is not None:
            return bad
        try:
            created = parse_create_result(step.stdout.read_bytes())
        except (GarbledOutput, OSError):
            return self._without_result(step)
        if step.accumulator.all_sources_missing(self._sources):
            return self._remove_empty(self._work.engine.address(created.archive_name, created.archive_id))
        return self._completed(step, created)

    def _stopped(self, step: Step, ending: Stopped) -> Ended:
        """Handle an engine that stopped on request; it may have created the archive just before."""
        try:
            found = self._evidence(AFTER)
        except EvidenceUnknown as unknown:
            return replace(ending, error_key=unknown.key, message=_not_known(unknown))
        return self._by_evidence(found, step.accumulator, STOPPED_LATE) if found else ending

    def _failed(self, step: Step, ending: Failed) -> Ended:
        """Handle an engine that failed; it may have created the archive just before."""
        if ending.error_key not in MAY_COME_AFTER_THE_ARCHIVE:
            return ending
        try:
            found = self._evidence(AFTER)
        except EvidenceUnknown as unknown:
            # If the repository cannot be read, the failure that is already known is the reason.
            return self._ask_again(unknown) if unknown.key == INTERRUPTED else ending
        return self._by_evidence(found, step.accumulator, FAILED_LATE, warned=True) if found else ending

    def _without_result(self, step: Step) -> Ended:
        """Handle an engine that reported success but whose result cannot be read."""
        try:
            found = self._evidence(AFTER)
        except EvidenceUnknown as unknown:
            return self._ask_again(unknown)
        if found is None:
            return Failed("engine.failed", MADE_NOTHING, step.exit.code)
        return self._by_evidence(found, step.accumulator, LEFT_NO_RECORD)

    def _remove_empty(self, archive: str) -> Failed:
        """Delete an archive that is empty because all sources vanished during the run: that is not a backup."""
        self._remove("delete-empty", archive)
        return _sources_missing(self._sources)

    def _remove(self, step: str, archive: str) -> bool:
        """Delete an archive of this job that is not a backup. Return whether the engine succeeded."""
        command = self._work.engine.delete_archive(self._work.location, DeleteArchiveRequest(archive))
        for number in range(1, DELETE_TRIES + 1):
            try:
                return self._host.step(f"{step}-{number}", command, despite_cancel=True).succeeded
            except Interrupted:
                continue
        return False

    def _completed(self, step: Step, created: CreateResult) -> Completed:
        ended_at = datetime.fromtimestamp(step.exit.finished_at, UTC)
        completed = Completed(step.exit.code, step.is_warned, readable(created.archive_name), asdict(created.stats))
        completed = replace(completed, details={"created": document(step.stdout)}, ended_at=ended_at)
        return self._success(completed, step.accumulator)

    def _by_evidence(self, found: Found, accumulator: Accumulator, line: str, *, warned: bool = False) -> Ended:
        if accumulator.all_sources_missing(self._sources):
            return self._remove_empty(self._work.engine.address(found.archive.name, found.archive.id))
        self._host.log(line)
        details: dict[str, Any] = {"archive": described(found.archive), "by_evidence": True}
        if found.info:
            details["info"] = found.info.document
        warned = warned or accumulator.warning_count > 0
        completed = Completed(None, warned, readable(found.archive.name), found.stats, details=details)
        return self._success(replace(completed, ended_at=found.archive.end), accumulator)

    def _success(self, completed: Completed, accumulator: Accumulator) -> Completed:
        self._host.log(summary(completed.archive_name or "", completed.stats))
        self._host.report(**completed.stats, progress_percent=100.0, estimated_time_remaining=0)
        return replace(
            completed,
            warned=completed.warned or bool(self._exclusions.sources),
            warnings=(*self._exclusions.warnings, *warnings_of(accumulator)),
            details={**completed.details, "warning_count": accumulator.warning_count},
        )

    # --- evidence -------------------------------------------------------------------------------------------------

    def _evidence(self, question: str) -> Found | None:
        """Look for this job's archive in the repository. Raise EvidenceUnknown if the repository cannot be read."""
        key = key_in(self._block.comment)
        if key is None:
            return None
        for archive in archives_now(self._work, question, ListArchivesRequest()):
            if key_in(archive.comment) == key:
                return Found(archive, self._info(question, archive))
        return None

    def _info(self, question: str, archive: ArchiveInfo) -> Info | None:
        try:
            return info_now(self._work, f"{question}-info", self._work.engine.address(archive.name, archive.id))
        except EvidenceUnknown:
            return None

    def _ask_again(self, unknown: EvidenceUnknown) -> TryAgain:
        message = unknown.message if unknown.key == LOCKED else _not_known(unknown)
        return try_again(self._host, unknown.key, message)


def _with_storage(ended: Ended, step: Step) -> Ended:
    """Add the free space where the repository is stored, measured during the engine run. Failed backups report it
    too.
    """
    free, total = step.exit.free_bytes, step.exit.total_bytes
    if isinstance(ended, TryAgain) or free is None or total is None:
        return ended
    return replace(ended, details={**ended.details, "storage": {"free_bytes": free, "total_bytes": total}})


def _with_services(ended: Ended, not_started: Sequence[str]) -> Ended:
    """Add a warning for each service that did not restart."""
    if not not_started or not isinstance(ended, Completed):
        return ended
    warnings = tuple({"path": None, "message": sentence} for sentence in not_started)
    return replace(ended, warned=True, warnings=(*ended.warnings, *warnings))


def _not_known(unknown: EvidenceUnknown) -> str:
    return f"It is unknown whether the repository contains the archive: {unknown.message}"


def _sources_missing(missing: tuple[str, ...]) -> Failed:
    return Failed(
        missing_sources.KEY,
        missing_sources.sentence(missing),
        details={"error_params": missing_sources.params(missing)},
        warnings=missing_sources.warnings(missing),
    )


def summary(archive: str, stats: Mapping[str, Any]) -> str:
    """Return the last log line of a successful backup."""
    shown = [
        f"{stats['nfiles']} files" if stats.get("nfiles") is not None else "",
        f"{stats['original_size']} bytes" if stats.get("original_size") is not None else "",
        f"{stats['deduplicated_size']} bytes new" if stats.get("deduplicated_size") is not None else "",
    ]
    return f"Archive {archive}: {', '.join(filter(None, shown)) or 'complete'}."
