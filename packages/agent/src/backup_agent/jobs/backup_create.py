"""`backup.create`: one archive of the source paths."""

import os
from typing import Any

from backup_agent.archives import archives_now, described, document, info_now, stats_of
from backup_agent.job_work import (
    Completed,
    Ended,
    EvidenceUnknown,
    Failed,
    Stopped,
    TryAgain,
    Work,
    ended_without_success,
    is_warned,
    readable,
    warnings_of,
)
from backup_agent.progress import BackupProgress
from backup_agent.steps import Interrupted, Step
from backup_engine.outcome import SENTENCES, Accumulator
from backup_engine.parse import ArchiveInfo, CreateResult, GarbledOutput, parse_create_result
from backup_engine.requests import CreateRequest, DeleteArchiveRequest
from backup_protocol import BackupBlock, Stats

STEP = "create"
BEFORE, AFTER = "evidence-before", "evidence"
KEY_PREFIX = "holdfast:"
DELETE_TRIES = 3
MAY_COME_AFTER_THE_ARCHIVE = frozenset(
    {"engine.failed", "engine.disk_full", "engine.permission_denied", "engine.unreachable", "engine.damaged"}
)
"""Failures that may strike when the archive is already complete, such as a full disk under the engine's cache."""
LEFT_NO_RECORD = "The engine left no record of its end; the repository holds the archive, complete."
FAILED_LATE = "The engine failed when the archive was complete; the repository holds it."
STOPPED_LATE = "The engine was stopped when the archive was complete; the repository holds it."
MADE_NOTHING = "The engine said that it succeeded but made no archive."


def run(work: Work) -> Ended:
    block = block_of(work)
    if not work.steps.has_begun(STEP):
        if work.steps.attempt > 1 or work.ran_before:
            found = _asked(work, BEFORE)
            if found is not None:
                return _by_evidence(work, found, BEFORE, Accumulator(), LEFT_NO_RECORD)
        if block.source_paths and not any(map(os.path.lexists, block.source_paths)):
            return _without_sources_at_all()
    command = work.engine.create(work.location, _request(block))
    progress = BackupProgress(work.steps.report, work.expected_size)
    return _concluded(work, work.steps.run(STEP, command, on_event=progress.hear))


def interrupted(work: Work, interrupted: Interrupted) -> Ended:
    """Nobody knows how the engine ended: ask the repository whether the archive is there."""
    found = _asked(work, AFTER)
    if found is not None:
        return _by_evidence(work, found, AFTER, interrupted.accumulator, LEFT_NO_RECORD)
    if work.steps.is_cancelled():
        return Stopped()
    raise TryAgain("operations.interrupted", interrupted.sentence())


def block_of(work: Work) -> BackupBlock:
    assert isinstance(work.block, BackupBlock)
    return work.block


def key_of(block: BackupBlock) -> str | None:
    """The word of the comment by which the archive is known as this job's."""
    return next((word for word in (block.comment or "").split() if word.startswith(KEY_PREFIX)), None)


def _request(block: BackupBlock) -> CreateRequest:
    return CreateRequest(
        archive_name=block.archive_name,
        source_paths=block.source_paths,
        exclude_patterns=block.exclude_patterns,
        compression=block.compression,
        comment=block.comment,
        custom_flags=block.custom_flags,
        upload_ratelimit_kib=block.upload_ratelimit_kib,
    )


# --- the end ----------------------------------------------------------------------------------------------------------


def _concluded(work: Work, step: Step) -> Ended:
    bad = ended_without_success(step)
    if isinstance(bad, Stopped):
        return _stopped(work, step, bad)
    if isinstance(bad, Failed):
        return _failed(work, step, bad)
    try:
        created = parse_create_result(step.stdout.read_bytes())
    except (GarbledOutput, OSError):
        return _without_result(work, step)
    if step.accumulator.all_sources_missing(block_of(work).source_paths):
        return _remove_empty(work, work.engine.address(created.archive_name, created.archive_id))
    return _completed(work, step, created)


def _stopped(work: Work, step: Step, ending: Stopped) -> Ended:
    """The engine stopped because it was asked to; but it may have made the archive just before."""
    try:
        found = _evidence(work, AFTER)
    except EvidenceUnknown as unknown:
        work.steps.say(f"The repository could not be asked whether it holds the archive: {unknown}")
        return ending
    if found is None:
        return ending
    return _by_evidence(work, found, AFTER, step.accumulator, STOPPED_LATE)


def _failed(work: Work, step: Step, ending: Failed) -> Ended:
    if ending.error_key not in MAY_COME_AFTER_THE_ARCHIVE:
        return ending
    try:
        found = _evidence(work, AFTER)
    except EvidenceUnknown as unknown:
        if unknown.key == "operations.interrupted":
            raise _ask_again(unknown) from unknown
        return ending  # a repository that refuses to be read fails for the reason that is known already
    if found is None:
        return ending
    return _by_evidence(work, found, AFTER, step.accumulator, FAILED_LATE, warned=True)


def _without_result(work: Work, step: Step) -> Ended:
    found = _asked(work, AFTER)
    if found is None:
        return Failed("engine.failed", MADE_NOTHING, step.exit.code)
    return _by_evidence(work, found, AFTER, step.accumulator, LEFT_NO_RECORD)


def _without_sources_at_all() -> Failed:
    return Failed("engine.source_missing", SENTENCES["engine.source_missing"])


def _remove_empty(work: Work, archive: str) -> Failed:
    """All sources vanished under the engine, which then made an empty archive: that is not a backup."""
    command = work.engine.delete_archive(work.location, DeleteArchiveRequest(archive))
    for number in range(1, DELETE_TRIES + 1):
        try:
            work.steps.run(f"delete-empty-{number}", command, despite_cancel=True)
            break
        except Interrupted:
            continue
    return _without_sources_at_all()


def _completed(work: Work, step: Step, created: CreateResult) -> Completed:
    details = {"created": document(step.stdout), "warning_count": step.accumulator.warning_count}
    name, stats = readable(created.archive_name), stats_of(created.stats)
    return _success(work, name, stats, details, step.accumulator, step.exit.code, warned=is_warned(step))


def _by_evidence(
    work: Work, found: ArchiveInfo, question: str, accumulator: Accumulator, told: str, *, warned: bool = False
) -> Ended:
    if accumulator.all_sources_missing(block_of(work).source_paths):
        return _remove_empty(work, work.engine.address(found.name, found.id))
    work.steps.say(told)
    details = {"archive": described(found), "warning_count": accumulator.warning_count, "by_evidence": True}
    stats = _stats_of_archive(work, question, found)
    warned = warned or accumulator.warning_count > 0
    return _success(work, readable(found.name), stats, details, accumulator, None, warned=warned)


def _success(
    work: Work,
    archive: str,
    stats: Stats,
    details: dict[str, Any],
    accumulator: Accumulator,
    return_code: int | None,
    *,
    warned: bool,
) -> Completed:
    work.steps.say(_summary(archive, stats))
    if stats.original_size is not None and work.note_size is not None:
        work.note_size(stats.original_size)
    warnings = warnings_of(accumulator) if warned else ()
    return Completed(return_code, warned, archive, stats, warnings, details)


def _summary(archive: str, stats: Stats) -> str:
    told = [
        f"{stats.nfiles} files" if stats.nfiles is not None else "",
        f"{stats.original_size} bytes" if stats.original_size is not None else "",
        f"{stats.deduplicated_size} bytes new" if stats.deduplicated_size is not None else "",
    ]
    return f"Archive {archive}: {', '.join(filter(None, told)) or 'complete'}."


# --- the evidence -----------------------------------------------------------------------------------------------------


def _asked(work: Work, question: str) -> ArchiveInfo | None:
    """The archive of this job, if the repository holds it. Raise TryAgain if that cannot be told now."""
    try:
        return _evidence(work, question)
    except EvidenceUnknown as unknown:
        raise _ask_again(unknown) from unknown


def _evidence(work: Work, question: str) -> ArchiveInfo | None:
    key = key_of(block_of(work))
    if key is None:
        return None
    return next((each for each in archives_now(work, question) if key in each.comment.split()), None)


def _stats_of_archive(work: Work, question: str, found: ArchiveInfo) -> Stats:
    try:
        info = info_now(work, f"{question}-info", work.engine.address(found.name, found.id)).result
    except EvidenceUnknown:
        return Stats()
    return stats_of(info.archives[0].stats) if info.archives else Stats()


def _ask_again(unknown: EvidenceUnknown) -> TryAgain:
    sentence = f"The repository could not be asked whether it holds the archive: {unknown}"
    return TryAgain(unknown.key, sentence, 2.0)
