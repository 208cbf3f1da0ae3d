"""A backup that an agent makes on its machine."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

from sqlalchemy.orm import Session

from backup_engine.features import REFUSED_IN_NAMES
from backup_engine.parse import ArchiveInfo, CreateResult, GarbledOutput, parse_archives, parse_create_result
from backup_protocol import JobKind
from holdfast.access.caller import Caller
from holdfast.access.roles import Role
from holdfast.agents.schemas import NewBackupJob
from holdfast.backup import ending
from holdfast.backup.names import PLACEHOLDERS, safe, without
from holdfast.backup.schemas import BackupParams
from holdfast.backup.start import enqueue
from holdfast.errors import Unprocessable
from holdfast.operations.agent_work import AgentReport, AgentWork
from holdfast.operations.kinds import Kind, Outcome, reported
from holdfast.operations.models import Operation
from holdfast.operations.status import Trigger
from holdfast.operations.store import Origin
from holdfast.repositories import store
from holdfast.repositories.models import Repository

NOW = "{now:%Y-%m-%dT%H:%M:%S.%f}"
"""To the microsecond, so that no two backups of a repository get one name."""


def payload(session: Session, operation: Operation) -> Mapping[str, Any]:
    repository = _repository(session, operation)
    params = BackupParams.model_validate(operation.params)
    key = ending.key_of(operation)
    return {
        "archive_name": engine_name(
            params.archive_name or repository.archive_name_template,
            repository.name,
            REFUSED_IN_NAMES if repository.engine_version == 2 else "",
        ),
        "source_paths": list(params.source_paths or repository.source_paths),
        "exclude_patterns": list(repository.exclude_patterns),
        "compression": repository.compression,
        "comment": f"{params.comment} {key}" if params.comment else key,
        "custom_flags": list(repository.custom_flags),
        "upload_ratelimit_kib": repository.upload_ratelimit_kib,
    }


def engine_name(template: str, repository: str, refused: str = "") -> str:
    """The template with the engine's own placeholder for the time: the job may start long after it was queued.

    Each character of `refused` becomes a dash.
    """
    template, repository = without(refused, template), without(refused, repository)
    pieces: list[str] = []
    end = 0
    for match in PLACEHOLDERS.finditer(template):
        pieces += [_without_separators(template[end : match.start()]), _placeholder(match[1], repository)]
        end = match.end()
    return "".join([*pieces, _without_separators(template[end:])]).strip("-")


def _placeholder(inside: str, repository: str) -> str:
    word, _, form = inside.partition(":")
    if word == "repository":
        return safe(repository)
    return "{now:" + _without_separators(form) + "}" if form else NOW


def _without_separators(text: str) -> str:
    return re.sub(r"[\s/{}]+", "-", text.replace("::", "-"))


def conclude(session: Session, operation: Operation, report: AgentReport) -> Outcome:
    repository = _repository(session, operation)
    if not report.succeeded:
        return reported(report)
    created = _created(report)
    stats = dict(report.stats) if any(value is not None for value in report.stats.values()) else None
    archive = ending.archive_of(created) if created else _found(report)
    stats = stats or (asdict(created.stats) if created else {})
    name = archive["name"] if archive else report.archive_name
    result = {
        "archive": archive or ({"name": name} if name else None),
        "stats": stats,
        "return_code": report.return_code,
        "warning_count": len(report.warnings),
    }
    record = partial(
        ending.note_evidence,
        operation=operation,
        repository=repository,
        archive={**archive, "stats": stats} if archive else None,
        values=ending.evidence(stats, created.repository_totals if created else None),
    )
    return Outcome(report.status, result=result, warnings=report.warnings, archive_name=name, record=record)


def work() -> AgentWork:
    return AgentWork(JobKind.BACKUP_CREATE, payload, conclude)


def start(session: Session, caller: Caller, agent_machine_id: int, wanted: NewBackupJob, *, kind: Kind) -> Operation:
    """Queue a backup of a repository of an agent."""
    repository = store.require(session, caller, wanted.repository_id, Role.OPERATOR)
    if repository.execution_target != "agent" or repository.agent_machine_id != agent_machine_id:
        raise Unprocessable("agents.other_repository", "The repository is not one of this agent.")
    params = BackupParams(source_paths=wanted.source_paths, archive_name=wanted.archive_name)
    origin = Origin(Trigger.MANUAL, caller.user_id, caller.username)
    return enqueue(session, caller, kind, repository, params, origin)


def _created(report: AgentReport) -> CreateResult | None:
    """What the engine's `create` printed, if the agent sent it and it can be read."""
    document = report.details.get("created")
    if not isinstance(document, Mapping):
        return None
    try:
        return parse_create_result(json.dumps(document).encode())
    except GarbledOutput:
        return None


def _found(report: AgentReport) -> dict[str, Any] | None:
    """The archive that the agent found by its comment, after an end that nobody saw."""
    document = report.details.get("archive")
    if not isinstance(document, Mapping):
        return None
    try:
        found: ArchiveInfo = parse_archives(json.dumps({"archives": [document]}).encode())[0]
    except (GarbledOutput, IndexError):
        return None
    return ending.described(found)


def _repository(session: Session, operation: Operation) -> Repository:
    repository = store.get(session, operation.repository_id or 0)
    if repository is None:
        raise LookupError("the repository is not registered any more")
    return repository
