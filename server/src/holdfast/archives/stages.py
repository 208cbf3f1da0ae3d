"""Which index operations follow which events, and how they are queued."""

from collections.abc import Sequence
from typing import Any, Literal

from sqlalchemy import select
from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from backup_protocol import JobKind
from holdfast.archives.redundant_index_work import waiting_operation
from holdfast.operations import queue
from holdfast.operations.kinds import Kind
from holdfast.operations.models import Operation
from holdfast.operations.queue import Origin
from holdfast.operations.status import Needs, Status, Trigger
from holdfast.repositories import agent_target, store
from holdfast.repositories.models import Repository

Stage = Literal["archives", "stats", "history"]

KEPT_FRESH: dict[str, frozenset[Stage]] = {
    "full": frozenset({"archives", "stats", "history"}),
    "archives": frozenset({"archives", "stats"}),
    "off": frozenset(),
}
REBUILD: dict[str, tuple[Stage, ...]] = {
    "stats": ("stats",),
    "archives": ("archives", "stats", "history"),
    "history": ("history",),
}
RESYNC: tuple[Stage, ...] = ("archives", "stats", "history")
IMPORT: tuple[Stage, ...] = ("stats", "archives", "history")


def can_be_listed(session: Session, repository: Repository) -> bool:
    """Return False for a repository whose agent only makes backups: it cannot be indexed."""
    return agent_target.can(session, repository.agent_machine_id, JobKind.ARCHIVES_LIST)


def _needed_of(stage: str) -> Needs:
    """Return what the next stage needs. Sizes are only informative: if one damaged archive hides them, the chain
    continues.
    """
    return Needs.RAN if stage == "stats" else Needs.SUCCEEDED


@frozen
class Stages:
    """Queues chains of index operations, each of which waits for the previous one."""

    kinds: dict[str, Kind]
    has_history: bool = True
    """Whether the plan of this installation includes file history."""

    def builds_history(self, mode: str) -> bool:
        return self.has_history and mode == "full"

    def kept_fresh(self, mode: str) -> frozenset[Stage]:
        """Return the stages that are refreshed automatically in a mode."""
        return KEPT_FRESH[mode] if self.has_history else KEPT_FRESH[mode] - {"history"}

    def requested(self, stages: Sequence[Stage], mode: str) -> tuple[Stage, ...]:
        """Return the stages that a request leads to in a mode: file history is included only if the mode keeps it.

        A request for file history alone is kept as it is.
        """
        if tuple(stages) == ("history",):
            return ("history",)
        return tuple(stage for stage in stages if stage != "history" or self.builds_history(mode))

    def repeats(self, stages: Sequence[Stage], mode: str) -> bool:
        """Return False if any requested stage will not be kept fresh afterwards."""
        return set(self.requested(stages, mode)) <= self.kept_fresh(mode)

    def enqueue(
        self, session: Session, repository: Repository, stages: Sequence[Stage], origin: Origin
    ) -> list[Operation]:
        """Queue stages as one run. File history is never built for a mode that excludes it."""
        queued: list[Operation] = []
        if not agent_target.takes_work(session, repository) or not can_be_listed(session, repository):
            return queued
        for stage in self._of_executor(repository, stages):
            if stage == "history" and not self._can_build_history(session, repository):
                continue
            link = Origin(
                origin.trigger,
                origin.user_id,
                origin.user_name,
                run_id=queued[0].run_id if queued else origin.run_id,
                parent_id=origin.parent_id,
                depends_on_id=queued[-1].id if queued else origin.depends_on_id,
                depends_needs=_needed_of(queued[-1].kind) if queued else Needs.SUCCEEDED,
            )
            params = self._params(session, repository, stage, origin)
            queued.append(queue.enqueue(session, self.kinds[stage], params, link, subject=store.subject(repository)))
        return queued

    def _can_build_history(self, session: Session, repository: Repository) -> bool:
        """Return whether the mode includes file history and the repository's agent, if any, can be called for it."""
        is_wanted = self.builds_history(repository.index_mode)
        return is_wanted and agent_target.can(session, repository.agent_machine_id, JobKind.ENGINE_CALL)

    def _params(self, session: Session, repository: Repository, stage: Stage, origin: Origin) -> dict[str, Any]:
        """Return the parameters of a stage. A follow-up may be covered by an operation that already waits; requests
        never are.
        """
        if (
            origin.trigger is not Trigger.FOLLOWUP
            or (other := waiting_operation(session, repository.id, stage)) is None
        ):
            return {}
        return {"covered_by": other}

    def _of_executor(self, repository: Repository, stages: Sequence[Stage]) -> Sequence[Stage]:
        """Return the stages to queue for the repository: an agent reports sizes with the list of archives."""
        if repository.execution_target != "agent":
            return stages
        first: Sequence[Stage] = ("archives",) if {"archives", "stats"} & set(stages) else ()
        return (*first, *(stage for stage in stages if stage == "history"))

    def keep_fresh(self, session: Session, repository: Repository, origin: Origin) -> list[Operation]:
        """Queue whatever the mode keeps fresh."""
        wanted = [stage for stage in RESYNC if stage in self.kept_fresh(repository.index_mode)]
        return self.enqueue(session, repository, wanted, origin)

    def is_at_work(self, session: Session, repository_id: int) -> bool:
        """Return whether any index operation of a repository is waiting or running."""
        statement = select(Operation.id).where(
            Operation.repository_id == repository_id,
            Operation.category == "index",
            Operation.status.in_((Status.PENDING, Status.RUNNING)),
        )
        return session.scalars(statement.limit(1)).first() is not None

    # --- listeners --------------------------------------------------------------------------------------------------

    def after_archives_changed(self, session: Session, changed: Operation) -> None:
        repository = store.get(session, changed.repository_id or 0)
        if repository is not None:
            origin = Origin(
                Trigger.FOLLOWUP, changed.triggered_by_id, changed.triggered_by, changed.run_id, parent_id=changed.id
            )
            self.keep_fresh(session, repository, origin)

    def after_import(self, session: Session, repository: Repository) -> None:
        stages = [stage for stage in IMPORT if stage in self.kept_fresh(repository.index_mode)]
        self.enqueue(session, repository, stages, Origin(Trigger.IMPORT))

    def after_mode_change(self, session: Session, repository: Repository, old: str, new: str) -> None:
        """Queue one run for what the new mode keeps fresh and the old one did not."""
        if KEPT_FRESH[new] - KEPT_FRESH[old]:
            stages = [stage for stage in RESYNC if stage in self.kept_fresh(new)]
            self.enqueue(session, repository, stages, Origin(Trigger.RECONCILE))
