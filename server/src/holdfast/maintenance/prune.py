"""The operation kind `prune`: remove the archives that a retention policy does not keep."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy.orm import Session

from backup_engine.detect import EngineUnsupported
from backup_engine.events import Event, LogMessage
from backup_engine.parse import PrunedArchive, PruneResult, parse_prune_lines
from backup_engine.requests import InvalidRequest, PruneRequest
from holdfast.kit import clock
from holdfast.maintenance import on_agent, soft_delete
from holdfast.maintenance.listing import archives_now, ids
from holdfast.maintenance.progress import PhaseProgress
from holdfast.maintenance.retention import PruneParams, policy_values
from holdfast.operations.context import Context, Interrupted, StepResult
from holdfast.operations.kinds import Effect, Kind, Outcome, TryAgain
from holdfast.operations.models import Operation
from holdfast.operations.status import LockMode, Status
from holdfast.repositories import archive_records, store
from holdfast.repositories.location import Opener
from holdfast.repositories.work import EvidenceUnknown, RepositoryWork, readable, success_status, warnings_of

PLAN = "plan"
STEP = "prune"
PHASES = ("prune",)
LIST_LOGGER = "borg.output.list"
WOULD_REMOVE_EVERYTHING = (
    "prune.would_remove_everything",
    "No archive is young enough for the policy, which would remove them all; nothing was removed.",
)


def kind(opener: Opener) -> Kind:
    return Kind(
        name="prune",
        category="maintenance",
        limit_group="maintenance",
        lock=LockMode.EXCLUSIVE,
        params=PruneParams,
        run=lambda context: _Prune(opener, context).run(),
        on_interrupted=lambda context, interrupted: _Prune(opener, context).interrupted(interrupted),
        effects=frozenset({Effect.ARCHIVES_CHANGED}),
        present=present,
        agent=on_agent.prune_work(),
    )


def present(operation: Operation) -> dict[str, Any]:
    result = operation.result or {}
    return {name: result.get(name) for name in ("keep", "prune", "kept_count", "pruned_count")}


class PruneLines:
    """Collects the lines that name an archive, and no others."""

    def __init__(self) -> None:
        self._lines: list[Event] = []

    def hear(self, event: Event) -> None:
        if isinstance(event, LogMessage) and event.name == LIST_LOGGER:
            self._lines.append(event)

    def result(self) -> PruneResult:
        return parse_prune_lines(self._lines)


@dataclass(frozen=True, slots=True)
class _Removed:
    """Archives that this operation has removed; None where that cannot be told."""

    archives: tuple[dict[str, Any], ...]
    is_known: bool = True


class _Prune:
    """One attempt. Every method may be called again for the same attempt after a restart."""

    def __init__(self, opener: Opener, context: Context) -> None:
        assert isinstance(context.params, PruneParams)
        self._context = context
        self._work = RepositoryWork.open(opener, context)
        self._policy = context.params.policy(self._work.repository.retention)
        before: Mapping[str, Any] = context.operation.result or {}
        self._removed_before: list[dict[str, Any]] = list(before.get("prune") or [])

    def run(self) -> Outcome | TryAgain:
        """Plan first: what the plan would not leave standing is never begun."""
        try:
            command = self._work.engine.prune(self._work.location, PruneRequest(self._policy))
        except (InvalidRequest, EngineUnsupported) as error:
            return Outcome(Status.FAILED, error.key, str(error))
        step, plan = self._plan()
        if bad := self._work.ended_without_success(step):
            return bad
        self._context.log(f"The policy keeps {len(plan.keep)} archives and removes {len(plan.prune)}.")
        if not plan.prune:
            return self._completed(plan.keep, (), step, Status.COMPLETED)
        if not plan.keep:
            return Outcome(Status.FAILED, *WOULD_REMOVE_EVERYTHING, result=self._result(plan.keep, _Removed(())))
        lines = PruneLines()
        progress = PhaseProgress(self._context, PHASES)

        def hear(event: Event) -> None:
            progress.hear(event)
            lines.hear(event)

        return self._conclude(plan, lines, self._context.step(STEP, command, on_event=hear))

    def interrupted(self, interrupted: Interrupted) -> Outcome | TryAgain:
        """Nobody knows how the engine ended: the repository tells what is gone."""
        if interrupted.step != STEP:
            return TryAgain("operations.interrupted", interrupted.sentence(), result=self._so_far(_Removed(())))
        step, plan = self._plan()
        removed = self._evidence(plan)
        if removed.is_known and len(removed.archives) == len(plan.prune):
            self._context.log(
                "The engine left no record of its end; the repository shows that it has removed them all."
            )
            return self._completed(plan.keep, removed.archives, step, Status.COMPLETED)
        return self._again("operations.interrupted", interrupted.sentence(), removed)

    # --- parts ------------------------------------------------------------------------------------------------------

    def _plan(self) -> tuple[StepResult, PruneResult]:
        command = self._work.engine.prune(self._work.location, PruneRequest(self._policy, dry_run=True))
        lines = PruneLines()
        step = self._context.step(PLAN, command, on_event=lines.hear, quiet=True)
        return step, lines.result()

    def _conclude(self, plan: PruneResult, lines: PruneLines, step: StepResult) -> Outcome | TryAgain:
        bad = self._work.ended_without_success(step)
        if bad is None:
            done = lines.result()
            return self._completed(done.keep, described(done.prune), step, success_status(step))
        removed = self._evidence(plan)
        if isinstance(bad, TryAgain):
            return self._again(bad.error_key, bad.error_message, removed, bad.delay_seconds)
        if bad.status is Status.CANCELLED and removed.is_known and len(removed.archives) == len(plan.prune):
            return self._completed(plan.keep, removed.archives, step, Status.COMPLETED)
        return Outcome(
            bad.status,
            bad.error_key,
            bad.error_message,
            result={**self._result((), removed), "return_code": step.exit.code},
            warnings=bad.warnings,
            had_effects=bool(removed.archives),
            record=self._recording(removed.archives, note=False),
        )

    def _evidence(self, plan: PruneResult) -> _Removed:
        """Which of the planned archives are gone. Nobody else has worked on the repository meanwhile."""
        try:
            present_ids = ids(archives_now(self._work, "evidence"))
        except EvidenceUnknown:
            return _Removed((), is_known=False)
        return _Removed(described(archive for archive in plan.prune if archive.id not in present_ids))

    def _again(self, key: str, message: str, removed: _Removed, delay_seconds: float = 0.0) -> TryAgain:
        return TryAgain(
            key,
            message,
            delay_seconds,
            result=self._so_far(removed),
            had_effects=bool(removed.archives),
            record=self._recording(removed.archives, note=False),
        )

    def _completed(
        self,
        keep: Iterable[PrunedArchive],
        removed: tuple[dict[str, Any], ...],
        step: StepResult,
        status: Status,
    ) -> Outcome:
        result = {**self._result(tuple(keep), _Removed(removed)), "return_code": step.exit.code}
        return Outcome(
            status,
            result=result,
            warnings=warnings_of(step.accumulator) if status is not Status.COMPLETED else (),
            record=self._recording(removed, note=True),
        )

    def _result(self, keep: tuple[PrunedArchive, ...], removed: _Removed) -> dict[str, Any]:
        pruned = [*self._removed_before, *removed.archives]
        return {
            "keep": list(described(keep)),
            "prune": pruned,
            "kept_count": len(keep),
            "pruned_count": len(pruned) if removed.is_known else None,
            "policy": policy_values(self._policy),
            **(soft_delete.told(self._work.repository) if pruned else {}),
        }

    def _so_far(self, removed: _Removed) -> dict[str, Any]:
        pruned = [*self._removed_before, *removed.archives]
        return {"prune": pruned, "pruned_count": len(pruned) if removed.is_known else None}

    def _recording(self, removed: tuple[dict[str, Any], ...], *, note: bool) -> partial[None]:
        engine_ids = tuple(archive["id"] for archive in removed)
        return partial(_record, repository_id=self._work.repository.id, engine_ids=engine_ids, note=note)


def described(archives: Iterable[PrunedArchive]) -> tuple[dict[str, Any], ...]:
    return tuple(
        {
            "archive": readable(archive.archive),
            "id": archive.id,
            "time": archive.time.isoformat(),
            **({"rule": archive.rule} if archive.rule else {}),
        }
        for archive in archives
    )


def _record(session: Session, *, repository_id: int, engine_ids: tuple[str, ...], note: bool) -> None:
    archive_records.forget(session, repository_id, engine_ids)
    if note:
        store.note_evidence(session, repository_id, last_prune=clock.now())
