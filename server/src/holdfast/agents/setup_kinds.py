"""Operation kinds that only agents execute: creating, opening and unlocking repositories on their machines."""

from functools import partial
from typing import Any

from sqlalchemy.orm import Session

from backup_engine.results import InfoResult
from backup_protocol import Block, InitBlock, JobKind
from holdfast.agents.lost_jobs import evidence_kind
from holdfast.kit.schema import Schema
from holdfast.operations.context import Context
from holdfast.operations.job_work import JobReport, JobWork, reported
from holdfast.operations.kinds import CHANGES_ARCHIVES, Kind, failed_when_interrupted
from holdfast.operations.locks import Access
from holdfast.operations.models import Operation
from holdfast.operations.outcome import Outcome
from holdfast.operations.status import Status
from holdfast.repositories import store
from holdfast.repositories.job_kinds import info_in
from holdfast.repositories.models import Repository


class SetupParams(Schema):
    older_ok: bool = False


def kinds() -> tuple[Kind, ...]:
    return (init_kind(), import_kind(), break_lock_kind(), evidence_kind())


def init_kind() -> Kind:
    return _kind("init", "import", JobWork(JobKind.REPOSITORY_INIT, _init, _conclude_setup))


def import_kind() -> Kind:
    work = JobWork(JobKind.ARCHIVES_LIST, _nothing, _conclude_setup, may_repeat=True)
    return _kind("import", "import", work, Access.READ, effects=CHANGES_ARCHIVES)


def break_lock_kind() -> Kind:
    work = JobWork(JobKind.REPOSITORY_BREAK_LOCK, _nothing, _conclude_break_lock)
    return _kind("break_lock", "maintenance", work)


def _kind(name: str, category: str, work: JobWork, access: Access = Access.CHANGE, **more: Any) -> Kind:
    rules: dict[str, Any] = {"params": SetupParams, "run": _only_on_agents, "on_interrupted": failed_when_interrupted}
    return Kind(name=name, category=category, access=access, agent=work, **rules, **more)


def _only_on_agents(context: Context) -> Outcome:
    sentence = f"Operations of kind {context.operation.kind} are executed by agents."
    return Outcome(Status.FAILED, "operations.internal", sentence)


def _init(session: Session, operation: Operation) -> InitBlock:
    repository = store.get(session, operation.repository_id or 0)
    return InitBlock(encryption=repository.encryption if repository else "none")


def _nothing(session: Session, operation: Operation) -> Block:
    del session, operation
    return Block()


def _conclude_setup(session: Session, operation: Operation, report: JobReport) -> Outcome:
    """Mark the repository as ready once its agent has created or opened it."""
    del session
    if not report.succeeded:
        return reported(report)
    info = info_in(report)
    return reported(report, record=partial(_ready, repository_id=operation.repository_id or 0, info=info))


def _ready(session: Session, *, repository_id: int, info: InfoResult | None) -> None:
    repository = session.get(Repository, repository_id)
    if repository is None:
        return
    repository.setup_state = "ready"
    if info is not None:
        _note(repository, info)
    session.flush()
    store.publish(session, repository_id, "changed")


def _note(repository: Repository, info: InfoResult) -> None:
    repository.engine_id = info.repository_id[:64]
    if info.encryption and len(info.encryption) <= 40:
        repository.encryption = info.encryption
        repository.has_keyfile = info.encryption.startswith("keyfile")
    if info.repository_totals is not None:
        repository.total_size = info.repository_totals.total_size
        repository.unique_size = info.repository_totals.unique_size


def _conclude_break_lock(session: Session, operation: Operation, report: JobReport) -> Outcome:
    del session, operation
    return reported(report)
