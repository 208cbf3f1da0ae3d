"""Rows of repositories, agents and operations with chosen evidence, written without an engine."""

import itertools
import uuid
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from holdfast.agents.models import AgentMachine
from holdfast.kit import clock
from holdfast.operations.models import Operation
from holdfast.repositories.models import Repository

_numbers = itertools.count(1)


def repository_values(number: int, **values: Any) -> dict[str, Any]:
    now = values.get("created_at") or clock.now()
    return {
        "uuid": f"{number:032x}",
        "name": f"repository {number}",
        "path": f"/srv/backup/{number}",
        "identity": f"/srv/backup/{number}",
        "engine_version": 1,
        "repository_type": "local",
        "execution_target": "local",
        "encryption": "none",
        "compression": "lz4",
        "source_paths": ["/srv/data"],
        "own_sources": [],
        "exclude_patterns": [],
        "archive_name_template": "{repository}-{now}",
        "custom_flags": [],
        "mode": "full",
        "passphrase_location": "server",
        "index_mode": "archives",
        "history_index_excludes": [],
        "retention": {},
        "created_at": now,
        "updated_at": now,
        **values,
    }


def add_repository(session: Session, **values: Any) -> Repository:
    repository = Repository(**repository_values(next(_numbers), **values))
    session.add(repository)
    session.flush()
    return repository


def add_agent_machine(session: Session, name: str = "machine", **values: Any) -> AgentMachine:
    now = clock.now()
    agent = AgentMachine(
        **{
            "name": name,
            "agent_id": uuid.uuid4().hex,
            "token_hash": uuid.uuid4().hex,
            "token_prefix": "bk_agent_",
            "hostname": "machine",
            "os": "linux",
            "arch": "x86_64",
            "agent_version": "0",
            "engine_versions": [],
            "capabilities": [],
            "labels": {},
            "status": "online",
            "last_seen_at": now,
            "created_at": now,
            "updated_at": now,
            **values,
        }
    )
    session.add(agent)
    session.flush()
    return agent


def add_operation(session: Session, kind: str, status: str, at: datetime | None = None, **values: Any) -> Operation:
    now = at or clock.now()
    operation = Operation(
        **{
            "uuid": uuid.uuid4().hex,
            "kind": kind,
            "category": kind,
            "status": status,
            "trigger": "manual",
            "priority": 0,
            "queue_rank": now.timestamp(),
            "run_id": uuid.uuid4().hex,
            "created_at": now,
            "started_at": None if status == "pending" else now,
            "completed_at": None if status in ("pending", "running") else now,
            "params": {},
            **values,
        }
    )
    session.add(operation)
    session.flush()
    return operation
