"""`repository.prune`: remove the archives that a retention policy does not keep."""

import re
from collections.abc import Iterable
from typing import Any

from backup_engine import retention
from backup_engine.events import Event, LogMessage
from backup_engine.log_results import PrunedArchive, PruneResult, parse_prune_lines
from backup_engine.requests import InvalidRequest, PruneRequest, RetentionPolicy
from backup_jobs.archives import archives_now, ids
from backup_jobs.endings import Completed, Ended, Failed, Stopped
from backup_jobs.host import Interrupted, Step
from backup_jobs.progress import PhaseProgress
from backup_jobs.work import (
    EvidenceUnknown,
    Work,
    again_when_interrupted,
    ended_without_success,
    readable,
    warnings_of,
    with_details,
)
from backup_protocol import PruneBlock

PLAN, STEP, EVIDENCE = "plan", "prune", "evidence"
PHASES = ("prune",)
LIST_LOGGER = "borg.output.list"
WOULD_REMOVE_EVERYTHING = (
    "prune.would_remove_everything",
    "No archive is young enough for the policy, which would remove them all; nothing was removed.",
)
SERIES_AMBIGUOUS = (
    "prune.series_ambiguous",
    "Other archives match the names of this series. Nothing was removed; give the series a template of its own.",
)
RULES_DISAGREE = (
    "prune.rules_disagree",
    "The engine would keep other archives than the policy says. Nothing was removed; look at the dry run and at the log.",
)
LEFT_NO_RECORD = "The engine left no record of its end; the repository shows that it has removed them all."


class PruneLines:
    """Collects the lines that name an archive, and no others."""

    def __init__(self) -> None:
        self._lines: list[Event] = []

    def on_event(self, event: Event) -> None:
        if isinstance(event, LogMessage) and event.name == LIST_LOGGER:
            self._lines.append(event)

    def result(self) -> PruneResult:
        return parse_prune_lines(self._lines)


def run(work: Work[PruneBlock]) -> Ended:
    """Plan first: a prune whose plan would keep nothing, or other archives than the policy says, is never begun."""
    command = work.engine.prune(work.location, _request(work))
    step, plan = _planned(work)
    if bad := ended_without_success(work.host, step):
        return with_details(bad, _so_far(work, ()))
    if _is_ambiguous(work.block, plan):
        return Failed(*SERIES_AMBIGUOUS, step.exit.code, _details(work, (), ()))
    work.host.log(f"The policy keeps {len(plan.keep)} archives and removes {len(plan.prune)}.")
    if not plan.prune:
        return Completed(step.exit.code, details=_details(work, plan.keep, ()))
    if not plan.keep:
        return Failed(*WOULD_REMOVE_EVERYTHING, step.exit.code, _details(work, (), ()))
    if not retention.agrees(plan, policy_of(work.block), major=work.engine.program.major):
        return Failed(*RULES_DISAGREE, step.exit.code, _details(work, (), ()))
    lines = PruneLines()
    progress = PhaseProgress(work.host, PHASES)

    def on_event(event: Event) -> None:
        progress.on_event(event)
        lines.on_event(event)

    return _concluded(work, plan, lines, work.host.step(STEP, command, on_event=on_event))


def interrupted(work: Work[PruneBlock], interrupted: Interrupted) -> Ended:
    """How the engine ended is unknown: the repository shows what is gone."""
    again = again_when_interrupted(interrupted)
    if interrupted.step != STEP:
        return with_details(again, _so_far(work, ()))
    step, plan = _planned(work)
    gone = _gone(work, plan)
    if gone is not None and len(gone) == len(plan.prune):
        work.host.log(LEFT_NO_RECORD)
        return Completed(step.exit.code, details=_details(work, plan.keep, gone))
    return with_details(again, _so_far(work, gone))


def policy_of(block: PruneBlock) -> RetentionPolicy:
    """Raise InvalidRequest for a rule that is unknown, and for a policy that keeps nothing."""
    try:
        policy = RetentionPolicy(**block.policy)
    except TypeError as error:
        raise InvalidRequest("The retention policy has a rule that is not known here.") from error
    if policy.keeps_nothing:
        raise InvalidRequest("The retention policy keeps nothing.")
    return policy


def _is_ambiguous(block: PruneBlock, plan: PruneResult) -> bool:
    """Whether the plan names archives outside the series: the engine's globs cannot express every series."""
    if block.names is None:
        return False
    names = re.compile(block.names)
    return not all(names.fullmatch(archive.archive) for archive in (*plan.keep, *plan.prune))


def _request(work: Work[PruneBlock], *, dry_run: bool = False) -> PruneRequest:
    return PruneRequest(policy_of(work.block), work.block.glob, dry_run=dry_run)


def _planned(work: Work[PruneBlock]) -> tuple[Step, PruneResult]:
    lines = PruneLines()
    command = work.engine.prune(work.location, _request(work, dry_run=True))
    step = work.host.step(PLAN, command, on_event=lines.on_event, quiet=True)
    return step, lines.result()


def _concluded(work: Work[PruneBlock], plan: PruneResult, lines: PruneLines, step: Step) -> Ended:
    bad = ended_without_success(work.host, step)
    if bad is None:
        done = lines.result()
        details = _details(work, done.keep, done.prune)
        return Completed(step.exit.code, step.is_warned, warnings=warnings_of(step.accumulator), details=details)
    gone = _gone(work, plan)
    if isinstance(bad, Stopped) and gone is not None and len(gone) == len(plan.prune):
        return Completed(step.exit.code, details=_details(work, plan.keep, gone))
    return with_details(bad, _so_far(work, gone))


def _gone(work: Work[PruneBlock], plan: PruneResult) -> tuple[PrunedArchive, ...] | None:
    """Which of the planned archives are gone; None when the repository could not be read.

    No other job has worked on the repository meanwhile.
    """
    try:
        present = ids(archives_now(work, EVIDENCE))
    except EvidenceUnknown:
        return None
    return tuple(archive for archive in plan.prune if archive.id not in present)


def _details(work: Work[PruneBlock], keep: Iterable[PrunedArchive], removed: Iterable[PrunedArchive]) -> dict[str, Any]:
    kept = [named(archive) for archive in keep]
    return {"keep": kept, "kept_count": len(kept), **_so_far(work, removed)}


def _so_far(work: Work[PruneBlock], removed: Iterable[PrunedArchive] | None) -> dict[str, Any]:
    """The archives that this attempt and earlier ones have removed, as far as known."""
    gone = [*(work.host.earlier.get("prune") or ()), *(named(archive) for archive in removed or ())]
    return {"prune": gone, "pruned_count": None if removed is None else len(gone)}


def named(archive: PrunedArchive) -> dict[str, Any]:
    rule = {"rule": archive.rule} if archive.rule else {}
    return {"archive": readable(archive.archive), "id": archive.id, "time": archive.time.isoformat(), **rule}
