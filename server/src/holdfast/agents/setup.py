"""The operation kinds that only agents execute: making, opening and unlocking a repository on their machine."""

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from sqlalchemy.orm import Session

from backup_engine.parse import GarbledOutput, InfoResult, parse_info
from backup_protocol import JobKind
from holdfast.kit.schema import Schema
from holdfast.operations.agent_work import AgentReport, AgentWork
from holdfast.operations.context import Context
from holdfast.operations.kinds import Effect, Kind, Outcome, failed_when_interrupted, reported
from holdfast.operations.models import Operation
from holdfast.operations.status import LockMode, Status
from holdfast.repositories import store
from holdfast.repositories.models import Repository


class NoParams(Schema):
    pass


def kinds() -> tuple[Kind, ...]:
    return (init_kind(), import_kind(), break_lock_kind())


def init_kind() -> Kind:
    return _kind("init", "import", AgentWork(JobKind.REPOSITORY_INIT, _init, _conclude_setup))


def import_kind() -> Kind:
    work = AgentWork(JobKind.ARCHIVES_LIST, _nothing, _conclude_setup)
    return _kind("import", "import", work, LockMode.SHARED, frozenset({Effect.ARCHIVES_CHANGED}))


def break_lock_kind() -> Kind:
    work = AgentWork(JobKind.REPOSITORY_BREAK_LOCK, _nothing, _conclude_break_lock)
    return _kind("break_lock", "maintenance", work)


def _kind(
    name: str,
    category: str,
    work: AgentWork,
    lock: LockMode = LockMode.EXCLUSIVE,
    effects: frozenset[Effect] = frozenset(),
) -> Kind:
    return Kind(
        name=name,
        category=category,
        lock=lock,
        params=NoParams,
        run=_only_on_agents,
        on_interrupted=failed_when_interrupted,
        effects=effects,
        agent=work,
    )


def _only_on_agents(context: Context) -> Outcome:
    sentence = f"Operations of the kind {context.operation.kind} are executed by agents."
    return Outcome(Status.FAILED, "operations.internal", sentence)


def _init(session: Session, operation: Operation) -> Mapping[str, Any]:
    repository = store.get(session, operation.repository_id or 0)
    return {"encryption": repository.encryption if repository else "none", "make_parent_dirs": True}


def _nothing(session: Session, operation: Operation) -> Mapping[str, Any]:
    del session, operation
    return {}


def _conclude_setup(session: Session, operation: Operation, report: AgentReport) -> Outcome:
    """A repository is ready once its agent has made or opened it."""
    del session
    if not report.succeeded:
        return reported(report)
    info = info_of(report)
    return reported(report, record=partial(_ready, repository_id=operation.repository_id or 0, info=info))


def _ready(session: Session, *, repository_id: int, info: InfoResult | None) -> None:
    repository = session.get(Repository, repository_id)
    if repository is None:
        return
    repository.setup_state = "ready"
    if info is not None:
        _note(repository, info)
    session.flush()
    store.tell(session, repository_id, "changed")


def _note(repository: Repository, info: InfoResult) -> None:
    repository.engine_id = info.repository_id[:64]
    if info.encryption and len(info.encryption) <= 40:
        repository.encryption = info.encryption
        repository.has_keyfile = info.encryption.startswith("keyfile")
    if info.repository_totals is not None:
        repository.total_size = info.repository_totals.total_size
        repository.unique_size = info.repository_totals.unique_size


def info_of(report: AgentReport) -> InfoResult | None:
    """What the engine's `info` says of the repository, if the agent sent it and it can be read."""
    document = report.details.get("info")
    if not isinstance(document, Mapping):
        return None
    try:
        return parse_info(json.dumps(document).encode())
    except GarbledOutput:
        return None


def _conclude_break_lock(session: Session, operation: Operation, report: AgentReport) -> Outcome:
    del session, operation
    return reported(report)
