"""The operation kind `compact`: give the space of removed archives back."""

from functools import partial
from typing import Any

from sqlalchemy.orm import Session

from backup_engine.events import Event
from backup_engine.parse import parse_freed_bytes
from backup_engine.requests import CompactRequest
from holdfast.kit import clock
from holdfast.maintenance import on_agent
from holdfast.maintenance.progress import PhaseProgress
from holdfast.maintenance.schemas import CompactBody
from holdfast.operations.context import StepResult
from holdfast.operations.kinds import Kind, Outcome, TryAgain, again_when_interrupted
from holdfast.operations.models import Operation
from holdfast.operations.status import LockMode
from holdfast.repositories import store
from holdfast.repositories.location import Opener
from holdfast.repositories.work import RepositoryWork, on_repository, success_status, warnings_of

PHASES = {1: ("repository.compact_segments",), 2: ("compact.analyze_archives", "compact.compact_packs")}
"""How each major of the engine calls the phases of a compaction."""


def kind(opener: Opener) -> Kind:
    return Kind(
        name="compact",
        category="maintenance",
        limit_group="maintenance",
        lock=LockMode.EXCLUSIVE,
        params=CompactBody,
        run=on_repository(opener, run),
        on_interrupted=again_when_interrupted,
        present=present,
        agent=on_agent.compact_work(),
    )


def present(operation: Operation) -> dict[str, Any]:
    return {"freed_bytes": (operation.result or {}).get("freed_bytes")}


class FreedBytes:
    """Listens for the one line in which the engine tells about how many bytes it gave back."""

    def __init__(self) -> None:
        self.number: int | None = None

    def hear(self, event: Event) -> None:
        found = parse_freed_bytes([event])
        self.number = found if found is not None else self.number


def compact_step(work: RepositoryWork, request: CompactRequest) -> tuple[StepResult, int | None]:
    """Run the engine; return how it ended and the bytes it gave back, None if it did not tell."""
    freed = FreedBytes()
    progress = PhaseProgress(work.context, PHASES[work.repository.engine_version])

    def hear(event: Event) -> None:
        progress.hear(event)
        freed.hear(event)

    step = work.context.step("compact", work.engine.compact(work.location, request), on_event=hear)
    return step, freed.number


def run(work: RepositoryWork) -> Outcome | TryAgain:
    params = work.context.params
    assert isinstance(params, CompactBody)
    step, freed = compact_step(work, CompactRequest(threshold=params.threshold))
    if bad := work.ended_without_success(step):
        return bad
    return Outcome(
        success_status(step),
        result={"freed_bytes": freed, "threshold": params.threshold, "return_code": step.exit.code},
        warnings=warnings_of(step.accumulator),
        record=partial(note, repository_id=work.repository.id),
    )


def note(session: Session, *, repository_id: int) -> None:
    store.note_evidence(session, repository_id, last_compact=clock.now())
