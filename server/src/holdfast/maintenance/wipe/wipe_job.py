"""The operation kind `wipe`: remove every archive of a repository, and nothing that was not in the preview.

Archives count as removed if they were listed before and are not listed afterwards. The archives that an attempt has
removed are stored with the operation, so that the next attempt continues from there.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any

from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from backup_engine.requests import CompactRequest, DeleteArchiveRequest, InvalidRequest
from backup_engine.results import ArchiveInfo
from backup_jobs.archives import EVERYTHING, archives_now, ids, read_archives
from backup_jobs.compact import compact_step
from backup_jobs.host import Cancelled, Interrupted
from backup_jobs.work import EvidenceUnknown
from holdfast.maintenance import soft_delete
from holdfast.maintenance.wipe import store
from holdfast.maintenance.wipe.errors import PROTECTED, STALE
from holdfast.maintenance.wipe.present import detail
from holdfast.maintenance.wipe.schemas import WipeParams
from holdfast.operations.context import Context
from holdfast.operations.end_time import end_of_work
from holdfast.operations.kinds import CHANGES_ARCHIVES, Kind
from holdfast.operations.locks import Access
from holdfast.operations.outcome import Outcome, TryAgain
from holdfast.operations.status import Status
from holdfast.repositories import archive_records, protection
from holdfast.repositories import store as repositories
from holdfast.repositories.location import Opener
from holdfast.repositories.work import RepositoryWork
from holdfast.runner.recording import MAX_ATTEMPTS

LOOK = "look"
BATCH = 100
"""Archives per engine run. Each run is one transaction of the engine: all of it or nothing."""


def kind(opener: Opener) -> Kind:
    return Kind(
        name="wipe",
        category="maintenance",
        limit_group="maintenance",
        access=Access.CHANGE,
        params=WipeParams,
        run=lambda context: _Wipe(opener, context).run(),
        on_interrupted=lambda context, interrupted: _Wipe(opener, context).interrupted(interrupted),
        effects=CHANGES_ARCHIVES,
        present=detail,
    )


@frozen
class _Tally:
    """Removed archives of all attempts. `maybe`: deletion begun, result unknown."""

    removed: tuple[str, ...] = ()
    maybe: tuple[str, ...] = ()
    remaining: tuple[str, ...] | None = None
    newly: tuple[str, ...] = field(default=())
    """Archives removed by this attempt."""

    @staticmethod
    def of(result: Mapping[str, Any] | None) -> "_Tally":
        left = result or {}
        return _Tally(tuple(left.get("deleted_ids") or ()), tuple(left.get("maybe_deleted_ids") or ()))


class _Wipe:
    """One attempt. Every method may be called again for the same attempt after a restart."""

    def __init__(self, opener: Opener, context: Context) -> None:
        assert isinstance(context.params, WipeParams)
        self._context = context
        self._params = context.params
        self._work = RepositoryWork.open(opener, context)
        with context.database.reading() as session:
            preview = store.of_repository(session, self._work.repository.id, self._params.preview_id)
            self._is_protected = protection.count(session, self._work.repository.id) > 0
        self._confirmed = frozenset(archive["id"] for archive in preview.archives)
        self._names: dict[str, str] = {archive["id"]: archive["name"] for archive in preview.archives}
        self._before = _Tally.of(context.operation.result)

    def run(self) -> Outcome | TryAgain:
        try:
            return self._run()
        except EvidenceUnknown as unknown:
            return self._again(unknown.key, unknown.message, self._before)

    def interrupted(self, interrupted: Interrupted) -> Outcome | TryAgain:
        """How the engine ended is unknown: list the repository to find out which archives are gone."""
        sentence = interrupted.sentence()
        if interrupted.step == LOOK:
            return self._again("operations.interrupted", sentence, self._before)
        present = self._look_again()
        tally = self._evidence(present)
        if tally.remaining:
            return self._again("operations.interrupted", sentence, tally)
        if tally.remaining is None or interrupted.step == "compact":
            return self._again("operations.interrupted", sentence, tally)
        try:
            return self._compact(tally)
        except Interrupted:
            return self._again("operations.interrupted", sentence, tally)

    # --- looking --------------------------------------------------------------------------------------------------

    def _run(self) -> Outcome | TryAgain:
        step = self._context.step(LOOK, self._work.engine.list_archives(self._work.location, EVERYTHING), quiet=True)
        bad = self._work.ended_without_success(step)
        if isinstance(bad, TryAgain):
            return self._again(bad.error_key, bad.error_message, self._before, bad.delay_seconds)
        if bad is not None:
            return self._ended(bad, "error", self._before)
        present = self._known_before(read_archives(step.stdout))
        expected = self._confirmed - set(self._before.removed)
        if self._is_protected:
            return self._ended(Outcome(Status.FAILED, *PROTECTED), self._failed_phase(self._before), self._before)
        if ids(present) != expected:
            return self._ended(Outcome(Status.FAILED, *STALE), self._failed_phase(self._before), self._before)
        return self._delete(present)

    def _known_before(self, present: list[ArchiveInfo]) -> list[ArchiveInfo]:
        """Find out what an earlier attempt may have removed, now that the repository can be read again."""
        self._names.update({archive.id: archive.name for archive in present})
        there = ids(present)
        gone = tuple(archive for archive in self._before.maybe if archive not in there)
        removed = self._before.removed + gone
        self._before = _Tally(removed, remaining=tuple(sorted(there)), newly=gone)
        return sorted(present, key=lambda archive: (archive.start, archive.id))

    def _look_again(self) -> list[ArchiveInfo]:
        """The archives at the beginning of this attempt, from its spool."""
        step = self._context.step(LOOK, self._work.engine.list_archives(self._work.location, EVERYTHING), quiet=True)
        return self._known_before(read_archives(step.stdout))

    def _evidence(self, present: Sequence[ArchiveInfo]) -> _Tally:
        """Which of these archives are gone now, and which are left."""
        try:
            there = ids(archives_now(self._work, "evidence"))
        except EvidenceUnknown:
            return replace(self._before, maybe=tuple(archive.id for archive in present), remaining=None)
        gone = tuple(archive.id for archive in present if archive.id not in there)
        left = tuple(archive.id for archive in present if archive.id in there)
        return _Tally(self._before.removed + gone, remaining=left, newly=self._before.newly + gone)

    # --- removing -------------------------------------------------------------------------------------------------

    def _delete(self, present: Sequence[ArchiveInfo]) -> Outcome | TryAgain:
        self._context.log(f"{len(present)} archives to remove.")
        problem = self._delete_in_batches(present)
        tally = self._evidence(present) if present else self._before
        if tally.remaining is None:
            key, message = "engine.failed", "The remaining archives of the repository could not be listed."
            return self._again(key, message, tally)
        if not tally.remaining:
            return self._compact(tally)
        if isinstance(problem, TryAgain):
            return self._again(problem.error_key, problem.error_message, tally, problem.delay_seconds)
        if problem is None:
            sentence = f"The engine reported that it removed all archives, but {len(tally.remaining)} are left."
            problem = Outcome(Status.FAILED, "engine.failed", sentence)
        cancelled = problem.status is Status.CANCELLED
        return self._ended(problem, "cancelled" if cancelled else self._failed_phase(tally), tally)

    def _delete_in_batches(self, present: Sequence[ArchiveInfo]) -> Outcome | TryAgain | None:
        """Run the engine on one batch after another; return the reason for stopping early, or None."""
        engine = self._work.engine
        size = BATCH if engine.features.deletes_many else 1
        batches = [present[start : start + size] for start in range(0, len(present), size)]
        for number, batch in enumerate(batches):
            done = number * 100 / (len(batches) + self._params.run_compact)
            message = f"Removing archives, {number * size} of {len(present)} done"
            self._context.report(phase="delete", progress_percent=round(done, 1), message=message)
            first, *others = (engine.address(archive.name, archive.id) for archive in batch)
            try:
                request = DeleteArchiveRequest(first, tuple(others))
                command = engine.delete_archive(self._work.location, request)
                step = self._context.step(f"delete-{number + 1}", command)
            except InvalidRequest as error:
                return Outcome(Status.FAILED, error.key, str(error))
            except Cancelled:
                return Outcome(Status.CANCELLED)
            if bad := self._work.ended_without_success(step):
                return bad
        return None

    # --- reclaiming the space -------------------------------------------------------------------------------------

    def _compact(self, tally: _Tally) -> Outcome | TryAgain:
        """Reclaim the space. All archives are gone, so the wipe itself has succeeded even if the rest fails."""
        self._context.log(f"All {len(tally.removed)} archives removed.")
        if not self._params.run_compact:
            return self._ended(Outcome(Status.COMPLETED), "compact_skipped", tally)
        self._context.report(phase="compact", message="Giving space back")
        try:
            step, freed = compact_step(self._context, self._work.engine, self._work.location, CompactRequest())
        except Cancelled:
            return self._not_compacted(tally, "The compaction was cancelled before it began.")
        bad = self._work.ended_without_success(step)
        if isinstance(bad, TryAgain):
            return self._again(bad.error_key, bad.error_message, tally, bad.delay_seconds)
        if bad is not None:
            return self._not_compacted(tally, bad.error_message or "The compaction was cancelled.")
        return self._ended(Outcome(Status.COMPLETED), "completed", tally, freed_bytes=freed)

    def _not_compacted(self, tally: _Tally, why: str) -> Outcome:
        warning = {"path": None, "message": why}
        ending = Outcome(Status.COMPLETED_WITH_WARNINGS, warnings=(warning,))
        return self._ended(ending, "compact_failed", tally, compact_error=why)

    # --- endings --------------------------------------------------------------------------------------------------

    def _failed_phase(self, tally: _Tally) -> str:
        return "delete_failed_partial" if tally.removed else "delete_failed"

    def _ended(self, ending: Outcome, phase: str, tally: _Tally, **more: Any) -> Outcome:
        return replace(
            ending,
            result=self._result(phase, tally, **more),
            had_effects=bool(tally.newly),
            record=self._recording(tally, compacted=phase == "completed"),
        )

    def _again(self, key: str, message: str, tally: _Tally, delay_seconds: float = 0.0) -> Outcome | TryAgain:
        """Try again, or end uncompacted if all archives are gone and no attempt is left or the wipe was cancelled."""
        all_gone = tally.remaining is not None and not tally.remaining
        is_last = self._context.operation.attempt >= MAX_ATTEMPTS or self._context.is_cancelled()
        if all_gone and is_last:
            return self._not_compacted(tally, message)
        return TryAgain(
            key,
            message,
            delay_seconds,
            result=self._result("error" if tally.maybe else self._failed_phase(tally), tally),
            had_effects=bool(tally.newly),
            record=self._recording(tally, compacted=False),
        )

    def _result(self, phase: str, tally: _Tally, **more: Any) -> dict[str, Any]:
        known = not tally.maybe
        remaining = tally.remaining if tally.remaining is not None else self._confirmed - set(tally.removed)
        return {
            "phase": phase,
            "archive_count": len(self._confirmed),
            "deleted_count": len(tally.removed) if known else None,
            "remaining_count": len(remaining) if known else None,
            "deleted": self._named(tally.removed),
            "remaining": self._named(remaining) if known else [],
            "deleted_ids": list(tally.removed),
            "maybe_deleted_ids": list(tally.maybe),
            "run_compact": self._params.run_compact,
            **(soft_delete.note_for(self._work.repository) if tally.removed and phase != "completed" else {}),
            **more,
        }

    def _named(self, archive_ids: Iterable[str]) -> list[str]:
        return sorted(self._names.get(archive, archive) for archive in archive_ids)

    def _recording(self, tally: _Tally, *, compacted: bool) -> partial[None]:
        return partial(_record, repository_id=self._work.repository.id, engine_ids=tally.newly, compacted=compacted)


def _record(session: Session, *, repository_id: int, engine_ids: tuple[str, ...], compacted: bool) -> None:
    archive_records.forget(session, repository_id, engine_ids)
    proven = {"last_compact": end_of_work(session)} if compacted else {}
    repositories.note_evidence(session, repository_id, *(("archives",) if engine_ids else ()), **proven)
