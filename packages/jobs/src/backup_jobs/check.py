"""`repository.check`: verify the repository."""

from typing import Any

from backup_engine.events import Event, LogMessage
from backup_engine.log_results import CHECK_FINISHED, parse_check_lines
from backup_engine.requests import CheckRequest
from backup_jobs.endings import Completed, Ended, TryAgain
from backup_jobs.progress import PhaseProgress
from backup_jobs.work import Work, ended_without_success, readable, warnings_of, with_details
from backup_protocol import CheckBlock

CONTENT = "check.verify_data"
SEGMENTS = {1: ("repository.check",), 2: ("check.index", "check.packs")}
ARCHIVES = {1: "check.rebuild_refcounts", 2: "check.rebuild_archives"}
"""Names of a check's phases, by major version of the engine."""
PROBLEM_LEVELS = frozenset({"ERROR", "CRITICAL"})
MOST_PROBLEMS = 1000
LONGEST_PROBLEM = 1000


class Findings:
    """Collects what the engine reports about the repository, up to a limit: a ruined repository yields a line per
    object.
    """

    def __init__(self) -> None:
        self.count = 0
        self._kept: list[Event] = []

    def on_event(self, event: Event) -> None:
        if not isinstance(event, LogMessage):
            return
        if CHECK_FINISHED.match(event.message):
            self._kept.append(event)
        elif event.level in PROBLEM_LEVELS:
            self.count += 1
            if self.count <= MOST_PROBLEMS:
                self._kept.append(event)

    def details(self) -> dict[str, Any]:
        found = parse_check_lines(self._kept, MOST_PROBLEMS)
        return {
            "problems": [readable(problem)[:LONGEST_PROBLEM] for problem in found.problems],
            "problem_count": self.count,
            "verdicts": list(found.finished),
        }


def run(work: Work[CheckBlock]) -> Ended:
    findings = Findings()
    progress = PhaseProgress(work.host, phases(work.block, work.engine.program.major))

    def on_event(event: Event) -> None:
        progress.on_event(event)
        findings.on_event(event)

    step = work.host.step("check", work.engine.check(work.location, request_of(work.block)), on_event=on_event)
    if bad := ended_without_success(work.host, step):
        return bad if isinstance(bad, TryAgain) else with_details(bad, findings.details())
    warnings = warnings_of(step.accumulator)
    return Completed(step.exit.code, step.is_warned, warnings=warnings, details=findings.details())


def request_of(block: CheckBlock) -> CheckRequest:
    return CheckRequest(block.max_duration, block.verify_data, block.repair)


def phases(block: CheckBlock, engine: int) -> tuple[str, ...]:
    if block.max_duration is not None:
        return SEGMENTS[engine]
    return (*SEGMENTS[engine], *((CONTENT,) if block.verify_data else ()), ARCHIVES[engine])
