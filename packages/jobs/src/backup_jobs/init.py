"""`repository.init`: create a repository."""

from typing import Any

from backup_engine.requests import InitRequest
from backup_jobs.archives import Info, info_now
from backup_jobs.endings import Completed, Ended
from backup_jobs.host import Interrupted
from backup_jobs.work import EvidenceUnknown, Work, ended_without_success, retry_when_interrupted, warnings_of
from backup_protocol import InitBlock

STEP = "init"
BEFORE, AFTER = "evidence-before", "evidence"


def run(work: Work[InitBlock]) -> Ended:
    if work.host.may_have_run and not work.host.has_begun(STEP):
        found = _made_before(work, BEFORE)
        if found is not None:
            return found
    request = InitRequest(work.block.encryption, work.block.make_parent_dirs)
    step = work.host.step(STEP, work.engine.init(work.location, request))
    if bad := ended_without_success(work.host, step):
        return bad
    details = _details(_known(work, "info"))
    return Completed(step.exit.code, step.is_warned, details=details, warnings=warnings_of(step.accumulator))


def interrupted(work: Work[InitBlock], interrupted: Interrupted) -> Ended:
    """Handle an unknown ending of the engine: a repository that opens with the job's passphrase is the job's own."""
    found = _made_before(work, AFTER) if interrupted.step == STEP else None
    return found or retry_when_interrupted(interrupted)


def _made_before(work: Work[InitBlock], question: str) -> Completed | None:
    known = _known(work, question)
    if known is None:
        return None
    work.host.log("The engine's exit was not recorded, but the repository exists and opens.")
    return Completed(None, details={**_details(known), "by_evidence": True})


def _known(work: Work[InitBlock], question: str) -> Info | None:
    try:
        return info_now(work, question)
    except EvidenceUnknown:
        return None


def _details(known: Info | None) -> dict[str, Any]:
    return {"info": known.document} if known else {}
