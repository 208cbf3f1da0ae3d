"""`repository.prune`: remove the archives that a retention policy does not keep."""

from collections.abc import Iterable
from typing import Any

from backup_agent.archives import archives_now
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
    within_message,
)
from backup_agent.progress import PhaseProgress
from backup_agent.steps import Interrupted, Step
from backup_engine.events import Event, LogMessage
from backup_engine.parse import PrunedArchive, PruneResult, parse_prune_lines
from backup_engine.requests import InvalidRequest, PruneRequest, RetentionPolicy
from backup_protocol import PruneBlock

PLAN, STEP, EVIDENCE = "plan", "prune", "evidence"
PHASES = ("prune",)
LIST_LOGGER = "borg.output.list"
WOULD_REMOVE_EVERYTHING = (
    "prune.would_remove_everything",
    "No archive is young enough for the policy, which would remove them all; nothing was removed.",
)


class PruneLines:
    """Collects the lines that name an archive, and no others."""

    def __init__(self) -> None:
        self._lines: list[Event] = []

    def hear(self, event: Event) -> None:
        if isinstance(event, LogMessage) and event.name == LIST_LOGGER:
            self._lines.append(event)

    def result(self) -> PruneResult:
        return parse_prune_lines(self._lines)


def run(work: Work) -> Ended:
    """Plan first: what the plan would not leave standing is never begun."""
    block = _block(work)
    step, plan = _planned(work)
    if bad := ended_without_success(step):
        return bad
    work.steps.say(f"The policy keeps {len(plan.keep)} archives and removes {len(plan.prune)}.")
    if not plan.prune:
        return Completed(step.exit.code, details=_details(plan.keep, ()))
    if not plan.keep:
        return Failed(*WOULD_REMOVE_EVERYTHING, details=_details((), ()))
    lines = PruneLines()
    progress = PhaseProgress(work.steps.report, PHASES)

    def hear(event: Event) -> None:
        progress.hear(event)
        lines.hear(event)

    command = work.engine.prune(work.location, PruneRequest(policy_of(block), block.glob))
    return _concluded(work, plan, lines, work.steps.run(STEP, command, on_event=hear))


def interrupted(work: Work, interrupted: Interrupted) -> Ended:
    """Nobody knows how the engine ended: the repository tells what is gone."""
    if interrupted.step == STEP:
        _, plan = _planned(work)
        gone = _gone(work, plan)
        if gone is not None and len(gone) == len(plan.prune):
            work.steps.say("The engine left no record of its end; the repository shows that it has removed them all.")
            return Completed(None, details=_details(plan.keep, gone))
        if work.steps.is_cancelled():
            return Stopped(None, _details((), gone))
    raise TryAgain("operations.interrupted", interrupted.sentence())


def policy_of(block: PruneBlock) -> RetentionPolicy:
    """Raise InvalidRequest for a rule that is unknown, and for a policy that keeps nothing."""
    try:
        policy = RetentionPolicy(**block.policy)
    except TypeError as error:
        raise InvalidRequest("The retention policy has a rule that this agent does not know.") from error
    if policy.keeps_nothing:
        raise InvalidRequest("The retention policy keeps nothing.")
    return policy


def _block(work: Work) -> PruneBlock:
    assert isinstance(work.block, PruneBlock)
    return work.block


def _planned(work: Work) -> tuple[Step, PruneResult]:
    block = _block(work)
    lines = PruneLines()
    command = work.engine.prune(work.location, PruneRequest(policy_of(block), block.glob, dry_run=True))
    step = work.steps.run(PLAN, command, on_event=lines.hear, quiet=True)
    return step, lines.result()


def _concluded(work: Work, plan: PruneResult, lines: PruneLines, step: Step) -> Ended:
    bad = ended_without_success(step)
    if bad is None:
        done = lines.result()
        warnings = warnings_of(step.accumulator) if is_warned(step) else ()
        details = _details(done.keep, done.prune)
        return Completed(step.exit.code, is_warned(step), warnings=warnings, details=details)
    gone = _gone(work, plan)
    if isinstance(bad, Stopped):
        if gone is not None and len(gone) == len(plan.prune):
            return Completed(step.exit.code, details=_details(plan.keep, gone))
        return Stopped(bad.return_code, _details((), gone))
    return Failed(bad.error_key, bad.message, bad.return_code, _details((), gone), bad.warnings)


def _gone(work: Work, plan: PruneResult) -> tuple[PrunedArchive, ...] | None:
    """Which of the planned archives are gone; None when the repository could not be asked."""
    try:
        present = {archive.id for archive in archives_now(work, EVIDENCE)}
    except EvidenceUnknown:
        return None
    return tuple(archive for archive in plan.prune if archive.id not in present)


def _details(keep: Iterable[PrunedArchive], removed: Iterable[PrunedArchive] | None) -> dict[str, Any]:
    kept, gone = list(keep), list(removed or ())
    return {
        "keep": within_message(_named(archive) for archive in kept),
        "prune": within_message(_named(archive) for archive in gone),
        "kept_count": len(kept),
        "pruned_count": None if removed is None else len(gone),
    }


def _named(archive: PrunedArchive) -> dict[str, Any]:
    rule = {"rule": archive.rule} if archive.rule else {}
    return {"archive": readable(archive.archive), "id": archive.id, "time": archive.time.isoformat(), **rule}
