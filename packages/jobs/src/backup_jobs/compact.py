"""`repository.compact`: free the space of removed archives."""

from backup_engine.events import Event
from backup_engine.interface import Engine
from backup_engine.log_results import parse_freed_bytes
from backup_engine.requests import CompactRequest, RepositoryLocation
from backup_jobs.endings import Completed, Ended
from backup_jobs.host import Host, Step
from backup_jobs.progress import PhaseProgress
from backup_jobs.work import Work, ended_without_success, warnings_of
from backup_protocol import CompactBlock

STEP = "compact"
PHASES = {1: ("repository.compact_segments",), 2: ("compact.analyze_archives", "compact.compact_packs")}
"""Names of a compaction's phases, by major version of the engine."""


class FreedBytes:
    """Finds the line in which the engine reports the number of bytes that it freed."""

    def __init__(self) -> None:
        self.number: int | None = None

    def on_event(self, event: Event) -> None:
        found = parse_freed_bytes([event])
        self.number = found if found is not None else self.number


def run(work: Work[CompactBlock]) -> Ended:
    step, freed = compact_step(work.host, work.engine, work.location, CompactRequest(work.block.threshold))
    if bad := ended_without_success(work.host, step):
        return bad
    warnings = warnings_of(step.accumulator)
    return Completed(step.exit.code, step.is_warned, warnings=warnings, details={"freed_bytes": freed})


def compact_step(
    host: Host, engine: Engine, location: RepositoryLocation, request: CompactRequest
) -> tuple[Step, int | None]:
    """Run the engine; return the step and the freed bytes, None if the engine did not report them."""
    freed = FreedBytes()
    progress = PhaseProgress(host, PHASES[engine.program.major])

    def on_event(event: Event) -> None:
        progress.on_event(event)
        freed.on_event(event)

    step = host.step(STEP, engine.compact(location, request), on_event=on_event)
    return step, freed.number
