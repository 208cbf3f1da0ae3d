"""The operation kind `backup`: one archive of a repository's sources."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from backup_engine.detect import EngineUnsupported
from backup_engine.events import ArchiveProgress, Event
from backup_engine.outcome import SENTENCES, Accumulator
from backup_engine.parse import (
    ArchiveInfo,
    CreateResult,
    GarbledOutput,
    RepositoryTotals,
    parse_archives,
    parse_create_result,
    parse_info,
)
from backup_engine.requests import (
    CreateRequest,
    DeleteArchiveRequest,
    InfoRequest,
    InvalidRequest,
    ListArchivesRequest,
)
from holdfast.backup import on_agent
from holdfast.backup.ending import archive_of, described, evidence, key_of, note_evidence
from holdfast.backup.names import archive_name
from holdfast.backup.schemas import BackupParams
from holdfast.operations.context import Context, Interrupted, StepResult
from holdfast.operations.kinds import Effect, Kind, Outcome, TryAgain
from holdfast.operations.models import Operation
from holdfast.operations.status import LockMode, Status
from holdfast.repositories.location import Opener
from holdfast.repositories.work import (
    LOCK_BACKOFF_SECONDS,
    EvidenceUnknown,
    RepositoryWork,
    failed,
    readable,
    warnings_of,
)

STEP = "create"
BEFORE, AFTER = "evidence-before", "evidence"
"""The repository is asked before a further attempt and after an unclear end: two questions, never one answer."""
LOCKED = "engine.locked"
DELETE_TRIES = 3
MAY_COME_AFTER_THE_ARCHIVE = frozenset(
    {"engine.failed", "engine.disk_full", "engine.permission_denied", "engine.unreachable", "engine.damaged"}
)
"""Failures that may strike when the archive is already complete, such as a full disk under the engine's cache."""
LEFT_NO_RECORD = "The engine left no record of its end; the repository holds the archive, complete."
FAILED_LATE = "The engine failed when the archive was complete; the repository holds it."


def kind(opener: Opener) -> Kind:
    return Kind(
        name="backup",
        category="backup",
        limit_group="backup",
        lock=LockMode.EXCLUSIVE,
        only_adds=True,
        params=BackupParams,
        run=lambda context: _Backup(opener, context).run(),
        on_interrupted=lambda context, interrupted: _Backup(opener, context).interrupted(interrupted),
        effects=frozenset({Effect.ARCHIVES_CHANGED}),
        present=present,
        agent=on_agent.work(),
    )


def present(operation: Operation) -> dict[str, Any]:
    result = operation.result or {}
    return {"archive": result.get("archive"), "stats": result.get("stats")}


@dataclass(frozen=True, slots=True)
class _Found:
    archive: ArchiveInfo
    stats: dict[str, Any]
    totals: RepositoryTotals | None


class _Backup:
    """One attempt. Every method may be called again for the same attempt after a restart."""

    def __init__(self, opener: Opener, context: Context) -> None:
        assert isinstance(context.params, BackupParams)
        self._work = RepositoryWork.open(opener, context)
        self._opener = opener
        self._context = context
        self._operation = context.operation
        self._params = context.params
        self._repository = self._work.repository
        self._engine = self._work.engine
        self._location = self._work.location
        self._sources = tuple(self._params.source_paths or self._repository.source_paths)

    def run(self) -> Outcome | TryAgain:
        if not self._context.has_begun(STEP):
            if self._operation.attempt > 1:
                try:
                    found = self._evidence(BEFORE)
                except EvidenceUnknown as unknown:
                    return self._work.locked(unknown.message) if unknown.error_key == LOCKED else _ask_again(unknown)
                if found is not None:
                    return self._completed_by_evidence(found, Accumulator())
            if self._sources and not self._opener.any_source_exists(self._repository, self._sources):
                return failed("engine.source_missing")
        try:
            command = self._engine.create(self._location, self._request())
        except (InvalidRequest, EngineUnsupported) as error:
            return Outcome(Status.FAILED, error.key, str(error))
        progress = _Progress(self._context, self._repository.typical_size)
        return self._conclude(self._context.step(STEP, command, on_event=progress.hear))

    def interrupted(self, interrupted: Interrupted) -> Outcome | TryAgain:
        """Nobody knows how the engine ended: ask the repository whether the archive is there."""
        try:
            found = self._evidence(AFTER)
        except EvidenceUnknown as unknown:
            return _ask_again(unknown)
        if found is not None:
            return self._completed_by_evidence(found, interrupted.accumulator)
        return TryAgain("operations.interrupted", interrupted.sentence())

    # --- the command ----------------------------------------------------------------------------------------------

    def _request(self) -> CreateRequest:
        repository = self._repository
        comment = f"{self._params.comment} {key_of(self._operation)}" if self._params.comment else None
        return CreateRequest(
            archive_name=self._archive_name(),
            source_paths=self._sources,
            exclude_patterns=tuple(repository.exclude_patterns),
            compression=repository.compression,
            comment=comment or key_of(self._operation),
            custom_flags=tuple(repository.custom_flags),
            upload_ratelimit_kib=repository.upload_ratelimit_kib,
        )

    def _archive_name(self) -> str:
        template = self._params.archive_name or self._repository.archive_name_template
        started = self._operation.started_at or self._operation.created_at
        return archive_name(
            template, repository=self._repository.name, now=started, refused=self._engine.features.refused_in_names
        )

    # --- the end --------------------------------------------------------------------------------------------------

    def _conclude(self, step: StepResult) -> Outcome | TryAgain:
        outcome = step.outcome
        if outcome.status == "cancelled":
            return self._cancelled(step)
        if bad := self._work.ended_without_success(step):
            return self._failed(step, bad)
        try:
            created = parse_create_result(step.stdout.read_bytes())
        except (GarbledOutput, OSError):
            return self._without_result(step)
        if self._sources and step.accumulator.all_sources_missing(self._sources):
            return self._without_sources(self._engine.address(created.archive_name, created.archive_id))
        return self._completed(step, created)

    def _cancelled(self, step: StepResult) -> Outcome:
        """The engine stopped because it was asked to; but it may have made the archive just before."""
        result = {"return_code": step.exit.code}
        try:
            found = self._evidence(AFTER)
        except EvidenceUnknown as unknown:
            return Outcome(Status.CANCELLED, unknown.error_key, _not_known(unknown), result=result)
        if found is not None:
            return self._completed_by_evidence(found, step.accumulator)
        return Outcome(Status.CANCELLED, result=result)

    def _failed(self, step: StepResult, ending: Outcome | TryAgain) -> Outcome | TryAgain:
        """The engine failed; but it may have made the archive just before."""
        if isinstance(ending, TryAgain) or ending.error_key not in MAY_COME_AFTER_THE_ARCHIVE:
            return ending
        try:
            found = self._evidence(AFTER)
        except EvidenceUnknown as unknown:
            # A repository that refuses to be read fails for the reason that is known already.
            return _ask_again(unknown) if unknown.error_key == "operations.interrupted" else ending
        if found is None:
            return ending
        return self._completed_by_evidence(found, step.accumulator, told=FAILED_LATE, warned=True)

    def _without_result(self, step: StepResult) -> Outcome | TryAgain:
        """The engine says that it succeeded, but its result cannot be read."""
        try:
            found = self._evidence(AFTER)
        except EvidenceUnknown as unknown:
            return _ask_again(unknown)
        if found is None:
            return Outcome(Status.FAILED, "engine.failed", "The engine said that it succeeded but made no archive.")
        return self._completed_by_evidence(found, step.accumulator)

    def _without_sources(self, archive: str) -> Outcome:
        """All sources vanished under the engine, which then made an empty archive: that is not a backup."""
        command = self._engine.delete_archive(self._location, DeleteArchiveRequest(archive))
        for number in range(1, DELETE_TRIES + 1):
            with contextlib.suppress(Interrupted):
                self._context.step(f"delete-empty-{number}", command, despite_cancel=True)
                break
        return failed("engine.source_missing")

    def _completed(self, step: StepResult, created: CreateResult) -> Outcome:
        stats = {
            "original_size": created.stats.original_size,
            "compressed_size": created.stats.compressed_size,
            "deduplicated_size": created.stats.deduplicated_size,
            "nfiles": created.stats.nfiles,
        }
        archive = archive_of(created)
        warned = step.outcome.status == "completed_with_warnings"
        return self._success(archive, stats, step.accumulator, created.repository_totals, step.exit.code, warned=warned)

    def _completed_by_evidence(
        self, found: _Found, accumulator: Accumulator, *, told: str = LEFT_NO_RECORD, warned: bool = False
    ) -> Outcome:
        if accumulator.all_sources_missing(self._sources):
            return self._without_sources(self._engine.address(found.archive.name, found.archive.id))
        archive = described(found.archive)
        self._context.log(told)
        warned = warned or accumulator.warning_count > 0
        return self._success(archive, found.stats, accumulator, found.totals, None, warned=warned)

    def _success(
        self,
        archive: dict[str, Any],
        stats: dict[str, Any],
        accumulator: Accumulator,
        totals: RepositoryTotals | None,
        return_code: int | None,
        *,
        warned: bool,
    ) -> Outcome:
        self._context.log(summary(archive["name"], stats))
        self._context.report(**stats, progress_percent=100.0, estimated_time_remaining=0)
        result = {
            "archive": archive,
            "stats": stats,
            "return_code": return_code,
            "warning_count": accumulator.warning_count,
        }
        return Outcome(
            Status.COMPLETED_WITH_WARNINGS if warned else Status.COMPLETED,
            result=result,
            warnings=warnings_of(accumulator),
            archive_name=archive["name"],
            record=partial(
                note_evidence,
                operation=self._operation,
                repository=self._repository,
                archive={**archive, "stats": stats},
                values=evidence(stats, totals),
            ),
        )

    # --- the evidence ---------------------------------------------------------------------------------------------

    def _evidence(self, question: str) -> _Found | None:
        """Look for the archive of this operation in the repository. Raise EvidenceUnknown if that cannot be told."""
        listing = self._work.find_out(question, self._engine.list_archives(self._location, ListArchivesRequest()))
        try:
            archives = parse_archives(listing.stdout.read_bytes())
        except (GarbledOutput, OSError) as error:
            raise EvidenceUnknown("engine.failed", SENTENCES["engine.failed"]) from error
        for archive in archives:
            if key_of(self._operation) in archive.comment.split():
                return self._details(question, archive)
        return None

    def _details(self, question: str, archive: ArchiveInfo) -> _Found:
        command = self._engine.info(self._location, InfoRequest(self._engine.address(archive.name, archive.id)))
        try:
            info = parse_info(self._work.find_out(f"{question}-info", command).stdout.read_bytes())
        except (GarbledOutput, OSError, EvidenceUnknown):
            return _Found(archive, {}, None)
        stats: dict[str, Any] = {}
        for details in info.archives:
            stats = {
                "original_size": details.stats.original_size,
                "compressed_size": details.stats.compressed_size,
                "deduplicated_size": details.stats.deduplicated_size,
                "nfiles": details.stats.nfiles,
            }
        return _Found(archive, stats, info.repository_totals)


def _ask_again(unknown: EvidenceUnknown) -> TryAgain:
    return TryAgain(unknown.error_key, _not_known(unknown), delay_seconds=LOCK_BACKOFF_SECONDS)


def _not_known(unknown: EvidenceUnknown) -> str:
    return f"The repository could not be asked whether it holds the archive: {unknown.message}"


class _Progress:
    """Percent and time left, against the size of the last complete backup."""

    def __init__(self, context: Context, expected: int | None) -> None:
        self._report: Callable[..., None] = context.report
        self._expected = expected
        self._began: float | None = None

    def hear(self, event: Event) -> None:
        if not isinstance(event, ArchiveProgress) or event.finished:
            return
        size = event.original_size
        speed = self._speed(event.time, size)
        values: dict[str, Any] = {
            "nfiles": event.nfiles,
            "original_size": size,
            "compressed_size": event.compressed_size,
            "deduplicated_size": event.deduplicated_size,
            "current_file": readable(event.path or ""),
            "backup_speed": speed,
            "total_expected_size": self._expected,
        }
        if self._expected and size is not None:
            values["progress_percent"] = round(min(99.0, size * 100 / self._expected), 1)
            if speed:
                values["estimated_time_remaining"] = max(0, round((self._expected - size) / speed))
        self._report(**values)

    def _speed(self, time: float | None, size: int | None) -> int | None:
        if time is None or size is None:
            return None
        if self._began is None:
            self._began = time
        return round(size / (time - self._began)) if time > self._began else None


def summary(archive: str, stats: dict[str, Any]) -> str:
    """The last line of a successful backup's log."""
    told = [
        f"{stats['nfiles']} files" if stats.get("nfiles") is not None else "",
        f"{stats['original_size']} bytes" if stats.get("original_size") is not None else "",
        f"{stats['deduplicated_size']} bytes new" if stats.get("deduplicated_size") is not None else "",
    ]
    return f"Archive {archive}: {', '.join(filter(None, told)) or 'complete'}."
