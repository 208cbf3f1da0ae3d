"""`archive.delete`: remove one archive."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from backup_engine.requests import DeleteArchiveRequest
from backup_engine.results import ArchiveInfo
from backup_jobs.archives import EVERYTHING, archives_now, described, ids, read_archives
from backup_jobs.endings import Completed, Ended, Failed, Stopped, TryAgain
from backup_jobs.host import Interrupted, Step
from backup_jobs.progress import PhaseProgress
from backup_jobs.work import EvidenceUnknown, Work, ended_without_success, retry_when_interrupted, warnings_of
from backup_protocol import DeleteBlock

LOOK, STEP, EVIDENCE = "look", "delete", "evidence"
PHASES = ("archive.delete",)
GONE = ("archives.gone", "The archive is no longer in the repository; refresh the archive list.")
UNKNOWN = ("archives.not_found", "The repository has no archive with this name; check the archive list.")
AMBIGUOUS = ("archives.name_ambiguous", "Several archives have this name; specify one by its id.")
PROTECTED = (
    "archives.protected",
    "The engine kept the archive because of its @PROT tag; remove the tag to delete it.",
)
LEFT_NO_RECORD = "The engine's exit was not recorded, but the archive is gone from the repository."
MAYBE_REMOVED = "maybe_removed"
"""Key of the details that name an archive that an earlier attempt began to delete, with unknown result."""


def run(work: Work[DeleteBlock]) -> Ended:
    step = _look(work)
    if bad := ended_without_success(work.host, step):
        return bad
    found = _find(work, step)
    if found is None:
        return _not_there(work)
    if work.block.archive_id is None and _is_ambiguous(work, step):
        return Failed(*AMBIGUOUS)
    archive = work.engine.address(found.name, found.id)
    command = work.engine.delete_archive(work.location, DeleteArchiveRequest(archive))
    progress = PhaseProgress(work.host, PHASES)
    return _concluded(work, found, work.host.step(STEP, command, on_event=progress.on_event))


def interrupted(work: Work[DeleteBlock], interrupted: Interrupted) -> Ended:
    """Handle an unknown ending of the engine: the repository shows whether the archive is gone."""
    again = retry_when_interrupted(interrupted)
    if interrupted.step != STEP:
        return again
    found = _find(work, _look(work))
    assert found is not None, "a deletion begins only with an archive that is there"
    gone = _is_gone(work, found)
    if gone:
        work.host.log(LEFT_NO_RECORD)
        return _completed(described(found))
    return _remembering(again, found) if gone is None else again


def _look(work: Work[DeleteBlock]) -> Step:
    return work.host.step(LOOK, work.engine.list_archives(work.location, EVERYTHING), quiet=True)


def _find(work: Work[DeleteBlock], step: Step) -> ArchiveInfo | None:
    """Return the requested archive. A later archive of the same name is a different one."""
    archives = read_archives(step.stdout)
    if work.block.archive_id is not None:
        return next((archive for archive in archives if archive.id == work.block.archive_id), None)
    return next((archive for archive in archives if archive.name == work.block.archive), None)


def _is_ambiguous(work: Work[DeleteBlock], step: Step) -> bool:
    return sum(archive.name == work.block.archive for archive in read_archives(step.stdout)) > 1


def _not_there(work: Work[DeleteBlock]) -> Ended:
    """Decide how to end if the archive is missing: an earlier attempt may have removed it without reporting that."""
    named = {"name": work.block.archive, "id": work.block.archive_id}
    before = work.host.earlier.get(MAYBE_REMOVED) or (named if work.host.ran_before else None)
    if before:
        work.host.log("The archive is gone: an earlier attempt removed it.")
        return _completed(before)
    gone = [work.block.archive_id] if work.block.archive_id else []
    # Only archives in the index have ever existed; any other name was never in the repository.
    return Failed(*(GONE if gone else UNKNOWN), details={"deleted": gone})


def _concluded(work: Work[DeleteBlock], found: ArchiveInfo, step: Step) -> Ended:
    bad = ended_without_success(work.host, step)
    if bad is None and work.engine.features.soft_delete and _is_gone(work, found) is False:
        return Failed(*PROTECTED, return_code=step.exit.code, details={"deleted": []})
    if bad is None:
        return _completed(described(found), step, warned=step.is_warned)
    gone = _is_gone(work, found)
    if gone:  # it was stopped, or failed for another reason, after it had done its work
        return _completed(described(found), step, warned=not isinstance(bad, Stopped))
    return _remembering(bad, found) if isinstance(bad, TryAgain) and gone is None else bad


def _is_gone(work: Work[DeleteBlock], found: ArchiveInfo) -> bool | None:
    """Whether the archive is gone; None if the repository could not be read. Nothing counts as gone without
    evidence.
    """
    try:
        return found.id not in ids(archives_now(work, EVIDENCE))
    except EvidenceUnknown:
        return None


def _remembering(again: TryAgain, found: ArchiveInfo) -> TryAgain:
    return replace(again, details={MAYBE_REMOVED: described(found)})


def _completed(archive: Mapping[str, Any], step: Step | None = None, *, warned: bool = False) -> Completed:
    """Report success. Without a step, the repository was the only evidence."""
    deleted = [archive["id"]] if archive["id"] else []
    return Completed(
        step.exit.code if step else None,
        warned,
        archive["name"],
        warnings=warnings_of(step.accumulator) if step and warned else (),
        details={"deleted": deleted, "archive": dict(archive), **({} if step else {"by_evidence": True})},
    )
