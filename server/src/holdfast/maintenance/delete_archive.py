"""The operation kind `delete_archive`: remove one archive."""

from functools import partial
from typing import Any

from sqlalchemy.orm import Session

from backup_engine.parse import ArchiveInfo
from backup_engine.requests import DeleteArchiveRequest, InvalidRequest
from holdfast.maintenance import on_agent, soft_delete
from holdfast.maintenance.listing import EVERYTHING, archives_now, ids, read_archives
from holdfast.maintenance.progress import PhaseProgress
from holdfast.maintenance.schemas import DeleteParams
from holdfast.operations.context import Context, Interrupted, StepResult
from holdfast.operations.kinds import Effect, Kind, Outcome, TryAgain
from holdfast.operations.models import Operation
from holdfast.operations.status import LockMode, Status
from holdfast.repositories import archive_records
from holdfast.repositories.location import Opener
from holdfast.repositories.work import EvidenceUnknown, RepositoryWork, success_status, warnings_of

LOOK = "look"
STEP = "delete"
PHASES = ("archive.delete",)
GONE = ("archives.gone", "The archive is not in the repository any more; refresh the list of archives.")

AMBIGUOUS = ("archives.name_ambiguous", "Several archives have this name; delete one by its id.")
PROTECTED = (
    "archives.protected",
    "The engine left the archive where it is, because it has the tag @PROT; remove the tag to delete it.",
)


def kind(opener: Opener) -> Kind:
    return Kind(
        name="delete_archive",
        category="maintenance",
        limit_group="maintenance",
        lock=LockMode.EXCLUSIVE,
        params=DeleteParams,
        run=lambda context: _Deletion(opener, context).run(),
        on_interrupted=lambda context, interrupted: _Deletion(opener, context).interrupted(interrupted),
        effects=frozenset({Effect.ARCHIVES_CHANGED}),
        present=present,
        agent=on_agent.delete_work(),
    )


def present(operation: Operation) -> dict[str, Any]:
    return {"archive": (operation.result or {}).get("archive")}


class _Deletion:
    """One attempt. Every method may be called again for the same attempt after a restart."""

    def __init__(self, opener: Opener, context: Context) -> None:
        assert isinstance(context.params, DeleteParams)
        self._context = context
        self._params = context.params
        self._work = RepositoryWork.open(opener, context)
        left: dict[str, Any] = context.operation.result or {}
        self._maybe_removed: dict[str, Any] | None = left.get("maybe_removed")
        """An archive that an earlier attempt began to delete, when nobody could tell whether it has."""

    def run(self) -> Outcome | TryAgain:
        step = self._look()
        if bad := self._work.ended_without_success(step):
            return self._with_memory(bad)
        found = self._find(step)
        if found is None:
            return self._not_there()
        if self._params.engine_id is None and self._is_ambiguous(step):
            return Outcome(Status.FAILED, *AMBIGUOUS)
        try:
            archive = self._work.engine.address(found.name, found.id)
            command = self._work.engine.delete_archive(self._work.location, DeleteArchiveRequest(archive))
        except InvalidRequest as error:
            return Outcome(Status.FAILED, error.key, str(error))
        progress = PhaseProgress(self._context, PHASES)
        return self._conclude(found, self._context.step(STEP, command, on_event=progress.hear))

    def interrupted(self, interrupted: Interrupted) -> Outcome | TryAgain:
        """Nobody knows how the engine ended: the repository tells whether the archive is gone."""
        if interrupted.step != STEP:
            return TryAgain("operations.interrupted", interrupted.sentence(), result=self._memory(None))
        found = self._find(self._look())
        assert found is not None, "a deletion begins only with an archive that is there"
        gone = self._is_gone(found)
        if gone:
            self._context.log("The engine left no record of its end; the repository shows that the archive is gone.")
            return self._completed(describe(found), None, Status.COMPLETED)
        memory = self._memory(describe(found) if gone is None else None)
        return TryAgain("operations.interrupted", interrupted.sentence(), result=memory)

    # --- parts ------------------------------------------------------------------------------------------------------

    def _look(self) -> StepResult:
        return self._context.step(LOOK, self._work.engine.list_archives(self._work.location, EVERYTHING), quiet=True)

    def _find(self, step: StepResult) -> ArchiveInfo | None:
        """The archive that is meant. One of the same name that was made later is another one."""
        archives = read_archives(step.stdout)
        if self._params.engine_id is not None:
            return next((archive for archive in archives if archive.id == self._params.engine_id), None)
        return next((archive for archive in archives if archive.name == self._params.archive), None)

    def _is_ambiguous(self, step: StepResult) -> bool:
        return sum(archive.name == self._params.archive for archive in read_archives(step.stdout)) > 1

    def _not_there(self) -> Outcome:
        if self._maybe_removed is not None:
            self._context.log("The archive is gone: an earlier attempt has removed it.")
            return self._completed(self._maybe_removed, None, Status.COMPLETED)
        gone = (self._params.engine_id,) if self._params.engine_id else ()
        return Outcome(Status.FAILED, *GONE, had_effects=bool(gone), record=self._forgetting(gone))

    def _conclude(self, found: ArchiveInfo, step: StepResult) -> Outcome | TryAgain:
        bad = self._work.ended_without_success(step)
        if bad is None and self._work.engine.features.soft_delete and self._is_gone(found) is False:
            return Outcome(Status.FAILED, *PROTECTED, result={"return_code": step.exit.code})
        if bad is None:
            return self._completed(describe(found), step, success_status(step))
        gone = self._is_gone(found)
        if gone:  # it was asked to stop, or fell over something else, after it had done its work
            status = Status.COMPLETED if bad_is_cancelled(bad) else Status.COMPLETED_WITH_WARNINGS
            return self._completed(describe(found), step, status)
        if isinstance(bad, TryAgain):
            memory = self._memory(describe(found) if gone is None else None)
            return TryAgain(bad.error_key, bad.error_message, bad.delay_seconds, result=memory)
        return bad

    def _is_gone(self, found: ArchiveInfo) -> bool | None:
        """None when the repository could not be asked."""
        try:
            return found.id not in ids(archives_now(self._work, "evidence"))
        except EvidenceUnknown:
            return None

    def _memory(self, maybe_removed: dict[str, Any] | None) -> dict[str, Any] | None:
        memory = maybe_removed or self._maybe_removed
        return {"maybe_removed": memory} if memory else None

    def _with_memory(self, bad: Outcome | TryAgain) -> Outcome | TryAgain:
        if isinstance(bad, TryAgain):
            return TryAgain(bad.error_key, bad.error_message, bad.delay_seconds, result=self._memory(None))
        return bad

    def _completed(self, archive: dict[str, Any], step: StepResult | None, status: Status) -> Outcome:
        return Outcome(
            status,
            result={
                "archive": archive,
                "return_code": step.exit.code if step else None,
                **soft_delete.told(self._work.repository),
            },
            warnings=warnings_of(step.accumulator) if step and status is not Status.COMPLETED else (),
            archive_name=archive["name"],
            record=self._forgetting((archive["id"],)),
        )

    def _forgetting(self, engine_ids: tuple[str, ...]) -> partial[None]:
        return partial(_forget, repository_id=self._work.repository.id, engine_ids=engine_ids)


def bad_is_cancelled(bad: Outcome | TryAgain) -> bool:
    return isinstance(bad, Outcome) and bad.status is Status.CANCELLED


def describe(archive: ArchiveInfo) -> dict[str, Any]:
    return {"name": archive.name, "id": archive.id, "start": archive.start.isoformat()}


def _forget(session: Session, *, repository_id: int, engine_ids: tuple[str, ...]) -> None:
    archive_records.forget(session, repository_id, engine_ids)
