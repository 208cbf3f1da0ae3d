"""`repository.init`: make a repository."""

from typing import Any

from backup_agent.archives import Info, info_now
from backup_agent.job_work import (
    Completed,
    Ended,
    EvidenceUnknown,
    TryAgain,
    Work,
    ended_without_success,
    is_warned,
    warnings_of,
)
from backup_agent.steps import Interrupted
from backup_engine.requests import InitRequest
from backup_protocol import InitBlock

STEP = "init"


def run(work: Work) -> Ended:
    block = work.block
    assert isinstance(block, InitBlock)
    if work.ran_before or work.steps.attempt > 1:
        found = _made_before(work)
        if found is not None:
            return found
    request = InitRequest(block.encryption, block.make_parent_dirs)
    step = work.steps.run(STEP, work.engine.init(work.location, request))
    if bad := ended_without_success(step):
        return bad
    warnings = warnings_of(step.accumulator) if is_warned(step) else ()
    return Completed(step.exit.code, is_warned(step), details=_details(_known(work, "info")), warnings=warnings)


def interrupted(work: Work, interrupted: Interrupted) -> Ended:
    """Nobody knows how the engine ended: a repository that opens with the passphrase of the job is the one it made."""
    if interrupted.step == STEP:
        found = _made_before(work)
        if found is not None:
            return found
    raise TryAgain("operations.interrupted", interrupted.sentence())


def _made_before(work: Work) -> Completed | None:
    known = _known(work, "evidence")
    if known is None:
        return None
    work.steps.say("The engine left no record of its end; the repository is there and opens.")
    return Completed(None, details={**_details(known), "by_evidence": True})


def _known(work: Work, question: str) -> Info | None:
    try:
        return info_now(work, question)
    except EvidenceUnknown:
        return None


def _details(known: Info | None) -> dict[str, Any]:
    return {"info": known.document} if known else {}
