"""Helpers that create rows of the store with sensible defaults."""

import hashlib
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy.orm import Session

from backup_engine.results import ArchiveInfo
from holdfast.kit import clock
from holdfast.operations.models import Operation
from holdfast.operations.status import LockMode, Status
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.models import Repository

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def day(number: float) -> datetime:
    return NOON + timedelta(days=number)


def a_repository(session: Session, **values: Any) -> Repository:
    number = uuid.uuid4().hex
    defaults: dict[str, Any] = {
        "uuid": number,
        "name": number,
        "path": f"/srv/{number}",
        "identity": f"/srv/{number}",
        "engine_version": 1,
        "repository_type": "local",
        "execution_target": "local",
        "encryption": "none",
        "compression": "lz4",
        "source_paths": ["/home"],
        "exclude_patterns": [],
        "archive_name_template": "{repository}-{now}",
        "custom_flags": [],
        "mode": "full",
        "passphrase_location": "server",
        "index_mode": "full",
        "history_index_excludes": [],
        "retention": {},
        "created_at": clock.now(),
        "updated_at": clock.now(),
    }
    repository = Repository(**{**defaults, **values})
    session.add(repository)
    session.flush()
    return repository


def engine_id(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


def an_archive(session: Session, repository: Repository, name: str, start: datetime, **values: Any) -> Archive:
    defaults: dict[str, Any] = {
        "repository_id": repository.id,
        "engine_id": engine_id(name),
        "name": name,
        "series": "series",
        "start": start,
        "first_seen_at": start,
        "last_seen_at": start,
    }
    archive = Archive(**{**defaults, **values})
    session.add(archive)
    session.flush()
    return archive


def listed(name: str, start: datetime, **values: Any) -> ArchiveInfo:
    """An archive as the engine lists it."""
    defaults: dict[str, Any] = {
        "id": engine_id(name),
        "name": name,
        "start": start,
        "end": start + timedelta(seconds=5),
        "comment": "",
        "hostname": "host",
        "username": "user",
    }
    return ArchiveInfo(**{**defaults, **values})


def an_operation(session: Session, repository: Repository, kind: str, status: Status, **values: Any) -> Operation:
    now = clock.now()
    defaults: dict[str, Any] = {
        "uuid": uuid.uuid4().hex,
        "kind": kind,
        "category": "index" if kind in ("archives", "stats", "history") else kind,
        "status": status,
        "trigger": "manual",
        "priority": 0,
        "queue_rank": now.timestamp(),
        "run_id": uuid.uuid4().hex,
        "repository_id": repository.id,
        "repository_name": repository.name,
        "repository_path": repository.path,
        "executor": "runner",
        "lock_key": f"repository:{repository.id}",
        "lock_mode": LockMode.SHARED,
        "created_at": now,
        "params": {},
        "completed_at": now if status not in (Status.PENDING, Status.RUNNING) else None,
    }
    operation = Operation(**{**defaults, **values})
    session.add(operation)
    session.flush()
    return operation
