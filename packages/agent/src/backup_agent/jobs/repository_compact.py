"""`repository.compact`: give the space of removed archives back."""

from backup_agent.job_work import Completed, Ended, Work, ended_without_success, is_warned, warnings_of
from backup_agent.progress import PhaseProgress
from backup_engine.events import Event
from backup_engine.parse import parse_freed_bytes
from backup_engine.requests import CompactRequest
from backup_protocol import CompactBlock

PHASES = {1: ("repository.compact_segments",), 2: ("compact.analyze_archives", "compact.compact_packs")}
"""How each major of the engine calls the phases of a compaction."""


def run(work: Work) -> Ended:
    block = work.block
    assert isinstance(block, CompactBlock)
    progress = PhaseProgress(work.steps.report, PHASES[work.engine.program.major])
    freed: list[int] = []

    def hear(event: Event) -> None:
        progress.hear(event)
        number = parse_freed_bytes([event])
        if number is not None:
            freed.append(number)

    command = work.engine.compact(work.location, CompactRequest(block.threshold))
    step = work.steps.run("compact", command, on_event=hear)
    if bad := ended_without_success(step):
        return bad
    details = {"freed_bytes": freed[-1] if freed else None, "threshold": block.threshold}
    warnings = warnings_of(step.accumulator) if is_warned(step) else ()
    return Completed(step.exit.code, is_warned(step), warnings=warnings, details=details)
