"""`archive.delete`: remove one archive."""

from typing import Any

from backup_agent.archives import archives_now, described
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
    warnings_of,
)
from backup_agent.progress import PhaseProgress
from backup_agent.steps import Interrupted
from backup_engine.parse import ArchiveInfo
from backup_engine.requests import DeleteArchiveRequest
from backup_protocol import DeleteBlock

LOOK, STEP, EVIDENCE = "look", "delete", "evidence"
PHASES = ("archive.delete",)
GONE = ("archives.gone", "The archive is not in the repository any more; refresh the list of archives.")
AMBIGUOUS = ("archives.name_ambiguous", "Several archives have this name; delete one by its id.")
PROTECTED = (
    "archives.protected",
    "The engine left the archive where it is, because it has the tag @PROT; remove the tag to delete it.",
)
LEFT_NO_RECORD = "The engine left no record of its end; the repository shows that the archive is gone."


def run(work: Work) -> Ended:
    try:
        found = _found(work)
    except EvidenceUnknown as unknown:
        raise TryAgain(unknown.key, str(unknown), 2.0) from unknown
    if found is None:
        return _not_there(work)
    if _is_ambiguous(work):
        return Failed(*AMBIGUOUS, details={"deleted": []})
    progress = PhaseProgress(work.steps.report, PHASES)
    command = work.engine.delete_archive(work.location, DeleteArchiveRequest(work.engine.address(found.name, found.id)))
    step = work.steps.run(STEP, command, on_event=progress.hear)
    bad = ended_without_success(step)
    if bad is None and work.engine.features.soft_delete and _is_there(work, found):
        return Failed(*PROTECTED, return_code=step.exit.code, details={"deleted": []})
    if bad is None:
        warnings = warnings_of(step.accumulator) if is_warned(step) else ()
        return _completed(found, step.exit.code, warned=is_warned(step), warnings=warnings)
    if _is_gone(work, found):  # it was asked to stop, or fell over something else, after it had done its work
        return _completed(found, step.exit.code, warned=not isinstance(bad, Stopped))
    return bad


def interrupted(work: Work, interrupted: Interrupted) -> Ended:
    """Nobody knows how the engine ended: the repository tells whether the archive is gone."""
    if interrupted.step == STEP:
        found = _found(work)
        if found is not None and _is_gone(work, found):
            work.steps.say(LEFT_NO_RECORD)
            return _completed(found, None)
        if work.steps.is_cancelled():
            return Stopped()
    raise TryAgain("operations.interrupted", interrupted.sentence())


def _found(work: Work) -> ArchiveInfo | None:
    """The archive that is meant. One of the same name that was made later is another one."""
    block = work.block
    assert isinstance(block, DeleteBlock)
    archives = archives_now(work, LOOK)
    if block.archive_id is not None:
        return next((archive for archive in archives if archive.id == block.archive_id), None)
    return next((archive for archive in archives if archive.name == block.archive), None)


def _is_ambiguous(work: Work) -> bool:
    block = work.block
    assert isinstance(block, DeleteBlock)
    if block.archive_id is not None:
        return False
    return sum(archive.name == block.archive for archive in archives_now(work, LOOK)) > 1


def _not_there(work: Work) -> Ended:
    """An earlier attempt may have removed it and not been able to say so; else somebody else has."""
    block = work.block
    assert isinstance(block, DeleteBlock)
    deleted = [block.archive_id] if block.archive_id else []
    if work.steps.attempt > 1 or work.ran_before:
        work.steps.say("The archive is gone: an earlier attempt has removed it.")
        return Completed(None, archive_name=block.archive, details={"deleted": deleted, "by_evidence": True})
    return Failed(*GONE, details={"deleted": deleted})


def _is_gone(work: Work, found: ArchiveInfo) -> bool:
    """False also when the repository could not be asked: nothing is said to be gone without evidence."""
    try:
        return found.id not in {archive.id for archive in archives_now(work, EVIDENCE)}
    except EvidenceUnknown:
        return False


def _is_there(work: Work, found: ArchiveInfo) -> bool:
    """False also when the repository could not be asked: the engine has said that it did its work."""
    try:
        return found.id in {archive.id for archive in archives_now(work, EVIDENCE)}
    except EvidenceUnknown:
        return False


def _completed(
    found: ArchiveInfo,
    return_code: int | None,
    *,
    warned: bool = False,
    warnings: tuple[dict[str, Any], ...] = (),
) -> Completed:
    archive = described(found)
    details: dict[str, Any] = {"deleted": [found.id], "archive": archive}
    return Completed(return_code, warned, archive["name"], warnings=warnings, details=details)
