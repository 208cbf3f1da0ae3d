"""`repository.prune`: remove the archives that a retention policy does not keep."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

from backup_engine import retention
from backup_engine.command import Command
from backup_engine.events import Event, LogMessage
from backup_engine.log_results import PrunedArchive, PruneResult, parse_prune_lines
from backup_engine.requests import DeleteArchiveRequest, InvalidRequest, PruneRequest, RetentionPolicy
from backup_jobs.archives import archives_now, ids
from backup_jobs.endings import Completed, Ended, Failed, Stopped, TryAgain
from backup_jobs.host import Cancelled, Interrupted, Step
from backup_jobs.progress import PhaseProgress
from backup_jobs.work import (
    EvidenceUnknown,
    Work,
    ended_without_success,
    readable,
    retry_when_interrupted,
    warnings_of,
    with_details,
)
from backup_protocol import PruneBlock

PLAN, STEP, EVIDENCE = "plan", "prune", "evidence"
PHASES = ("prune",)
AT_ONCE = 100
"""Archives that one engine run removes by name, in one transaction of the engine."""
LIST_LOGGER = "borg.output.list"
WOULD_REMOVE_EVERYTHING = (
    "prune.would_remove_everything",
    "The policy would remove every archive, because none is recent enough; nothing was removed.",
)
SERIES_AMBIGUOUS = (
    "prune.series_ambiguous",
    "Other archives match the name pattern of this series. Nothing was removed; give the series its own template.",
)
RULES_DISAGREE = (
    "prune.rules_disagree",
    "The engine's plan does not match the retention policy. Nothing was removed; check the dry run and the log.",
)
NOT_ALL_GONE = (
    "engine.failed",
    "The engine reported that it removed all planned archives, but some are left; check the log.",
)
LEFT_NO_RECORD = "The engine's exit was not recorded, but all planned archives are gone from the repository."


class PruneLines:
    """Collects only the output lines that name an archive."""

    def __init__(self) -> None:
        self._lines: list[Event] = []

    def on_event(self, event: Event) -> None:
        if isinstance(event, LogMessage) and event.name == LIST_LOGGER:
            self._lines.append(event)

    def result(self) -> PruneResult:
        return parse_prune_lines(self._lines)


def run(work: Work[PruneBlock]) -> Ended:
    """Plan first. A prune is not started if its plan keeps nothing or does not match the policy."""
    command = work.engine.prune(work.location, _request(work))
    step, plan = _planned(work)
    if bad := ended_without_success(work.host, step):
        return with_details(bad, _so_far(work, ()))
    if _is_ambiguous(work.block, plan):
        return Failed(*SERIES_AMBIGUOUS, step.exit.code, _details(work, (), ()))
    sparing = spare(plan, work.block.protected)
    work.host.log(_sentence(plan, sparing))
    if not sparing.prune:
        return Completed(step.exit.code, details=_details(work, sparing.keep, ()))
    if not plan.keep:
        return Failed(*WOULD_REMOVE_EVERYTHING, step.exit.code, _details(work, (), ()))
    if not retention.agrees(plan, policy_of(work.block), major=work.engine.program.major):
        return Failed(*RULES_DISAGREE, step.exit.code, _details(work, (), ()))
    if work.block.protected:
        return _removed_by_name(work, sparing)
    lines = PruneLines()
    progress = PhaseProgress(work.host, PHASES)

    def on_event(event: Event) -> None:
        progress.on_event(event)
        lines.on_event(event)

    return _concluded(work, plan, lines, work.host.step(STEP, command, on_event=on_event))


def interrupted(work: Work[PruneBlock], interrupted: Interrupted) -> Ended:
    """Handle an unknown ending of the engine: the repository shows what is gone."""
    again = retry_when_interrupted(interrupted)
    if not interrupted.step.startswith(STEP):
        return with_details(again, _so_far(work, ()))
    step, whole = _planned(work)
    plan = spare(whole, work.block.protected)
    gone = _gone(work, plan)
    if gone is not None and len(gone) == len(plan.prune):
        work.host.log(LEFT_NO_RECORD)
        return Completed(step.exit.code, details=_details(work, plan.keep, gone))
    return with_details(again, _so_far(work, gone))


def spare(plan: PruneResult, protected: Collection[str]) -> PruneResult:
    """Move protected archives of the plan from those to remove to those to keep. The policy counts them like all
    others.
    """
    spared = tuple(replace(one, rule=retention.PROTECTED) for one in plan.prune if one.id in protected)
    going = tuple(one for one in plan.prune if one.id not in protected)
    return PruneResult(keep=(*plan.keep, *spared), prune=going)


def _sentence(plan: PruneResult, sparing: PruneResult) -> str:
    spared = len(sparing.keep) - len(plan.keep)
    more = f" {spared} more are protected and kept." if spared else ""
    return f"The policy keeps {len(plan.keep)} archives and removes {len(sparing.prune)}.{more}"


def _removed_by_name(work: Work[PruneBlock], plan: PruneResult) -> Ended:
    """Remove exactly the archives of the plan. The engine's own prune would decide again and ignore protection."""
    size = AT_ONCE if work.engine.features.deletes_many else 1
    step: Step | None = None
    for number, first in enumerate(range(0, len(plan.prune), size)):
        done = round(number * size * 100 / len(plan.prune), 1)
        work.host.report(progress_percent=done, message=f"Removing archives, {number * size} of {len(plan.prune)} done")
        try:
            step = work.host.step(f"{STEP}-{number + 1}", _deletion(work, plan.prune[first : first + size]))
        except Cancelled:
            return _stopped_short(work, plan, Stopped())
        if bad := ended_without_success(work.host, step):
            return _stopped_short(work, plan, bad)
    gone = _gone(work, plan)
    code = step.exit.code if step else None
    if gone is not None and len(gone) < len(plan.prune):
        return Failed(*NOT_ALL_GONE, code, _so_far(work, gone))
    return Completed(code, details=_details(work, plan.keep, plan.prune if gone is None else gone))


def _deletion(work: Work[PruneBlock], archives: Sequence[PrunedArchive]) -> Command:
    first, *others = (work.engine.address(one.archive, one.id) for one in archives)
    return work.engine.delete_archive(work.location, DeleteArchiveRequest(first, tuple(others)))


def _stopped_short(work: Work[PruneBlock], plan: PruneResult, bad: Failed | Stopped | TryAgain) -> Ended:
    gone = _gone(work, plan)
    if isinstance(bad, Stopped) and gone is not None and len(gone) == len(plan.prune):
        return Completed(bad.return_code, details=_details(work, plan.keep, gone))
    return with_details(bad, _so_far(work, gone))


def policy_of(block: PruneBlock) -> RetentionPolicy:
    """Return the job's policy. Raise InvalidRequest if a rule is unknown or the policy keeps nothing."""
    try:
        policy = RetentionPolicy(**block.policy)
    except TypeError as error:
        raise InvalidRequest("The retention policy contains an unknown rule.") from error
    if policy.keeps_nothing:
        raise InvalidRequest("The retention policy keeps nothing.")
    return policy


def _is_ambiguous(block: PruneBlock, plan: PruneResult) -> bool:
    """Whether the plan contains archives outside the series: the engine's globs cannot express every series."""
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
    return _stopped_short(work, plan, bad)


def _gone(work: Work[PruneBlock], plan: PruneResult) -> tuple[PrunedArchive, ...] | None:
    """Return the planned archives that are gone; None if the repository could not be read.

    No other job has used the repository in the meantime.
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
    """The archives that this and earlier attempts have removed, as far as known."""
    gone = [*(work.host.earlier.get("prune") or ()), *(named(archive) for archive in removed or ())]
    return {"prune": gone, "pruned_count": None if removed is None else len(gone)}


def named(archive: PrunedArchive) -> dict[str, Any]:
    rule = {"rule": archive.rule} if archive.rule else {}
    return {"archive": readable(archive.archive), "id": archive.id, "time": archive.time.isoformat(), **rule}
