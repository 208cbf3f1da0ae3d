"""`repository.check`: is the repository whole?"""

from typing import Any

from backup_agent.job_work import (
    Completed,
    Ended,
    Work,
    ended_without_success,
    is_warned,
    readable,
    warnings_of,
)
from backup_agent.progress import PhaseProgress
from backup_engine.events import Event, LogMessage
from backup_engine.parse import CHECK_FINISHED, parse_check_lines
from backup_engine.requests import CheckRequest
from backup_protocol import CheckBlock

CONTENT = "check.verify_data"
SEGMENTS = {1: ("repository.check",), 2: ("check.index", "check.packs")}
ARCHIVES = {1: "check.rebuild_refcounts", 2: "check.rebuild_archives"}
"""How each major of the engine calls the phases of a check."""
PROBLEM_LEVELS = frozenset({"ERROR", "CRITICAL"})
MOST_PROBLEMS = 200
LONGEST_PROBLEM = 1000


class Findings:
    """What the engine says about the repository, in bounds: a ruined one has a line for each of its objects."""

    def __init__(self) -> None:
        self.count = 0
        self._kept: list[Event] = []

    def hear(self, event: Event) -> None:
        if not isinstance(event, LogMessage):
            return
        if CHECK_FINISHED.match(event.message):
            self._kept.append(event)
        elif event.level in PROBLEM_LEVELS:
            self.count += 1
            if self.count <= MOST_PROBLEMS:
                self._kept.append(event)

    def details(self, block: CheckBlock) -> dict[str, Any]:
        told = parse_check_lines(self._kept, MOST_PROBLEMS)
        return {
            "problems": [readable(problem)[:LONGEST_PROBLEM] for problem in told.problems],
            "problem_count": self.count,
            "verdicts": list(told.finished),
            "complete": block.max_duration is None,
            "verify_data": block.verify_data,
            "repair": block.repair,
        }


def run(work: Work) -> Ended:
    block = work.block
    assert isinstance(block, CheckBlock)
    request = CheckRequest(block.max_duration, block.verify_data, block.repair)
    findings = Findings()
    progress = PhaseProgress(work.steps.report, phases(block, work.engine.program.major))

    def hear(event: Event) -> None:
        progress.hear(event)
        findings.hear(event)

    step = work.steps.run("check", work.engine.check(work.location, request), on_event=hear)
    bad = ended_without_success(step, findings.details(block))
    if bad is not None:
        return bad
    warnings = warnings_of(step.accumulator) if is_warned(step) else ()
    return Completed(step.exit.code, is_warned(step), warnings=warnings, details=findings.details(block))


def phases(block: CheckBlock, engine: int) -> tuple[str, ...]:
    if block.max_duration is not None:
        return SEGMENTS[engine]
    return (*SEGMENTS[engine], *((CONTENT,) if block.verify_data else ()), ARCHIVES[engine])
