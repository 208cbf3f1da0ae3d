"""The outbox: events, written in the transaction that caused them, for their subscribers."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import insert
from sqlalchemy.orm import Session

from holdfast.kit import clock
from holdfast.operations.models import OutboxEntry
from holdfast.storage.bulk import insert_many
from holdfast.storage.session import news_after_commit, wake_after_commit

Topic = Literal[
    "operation.updated",
    "queue.updated",
    "repository.updated",
    "archive.added",
    "archive.removed",
    "agent.updated",
    "schedule.run",
    "schedule.clock_jumped",
    "schedule.updated",
    "alarm.raised",
    "alarm.changed",
    "alarm.cleared",
    "notification.delivery",
    "notification.failed",
    "notification.recovered",
    "notification.updated",
    "user.updated",
]
"""What rows can be about. Each is also an event of the stream, with its schema in `event_schemas`."""


def tell(
    session: Session,
    topic: Topic,
    payload: dict[str, Any],
    *,
    repository_id: int | None,
    operation_id: int | None = None,
) -> None:
    """Write a row. It is visible to users who may see the repository; without one, to administrators only."""
    session.execute(_ROW, _values(topic, payload, repository_id, operation_id))
    wake_after_commit(session)


def tell_many(session: Session, topic: Topic, rows: Sequence[tuple[dict[str, Any], int | None, int | None]]) -> None:
    """As `tell`, for many rows: each a payload, the id of a repository and of an operation."""
    if rows:
        now = clock.now()
        insert_many(session, OutboxEntry, [_values(topic, *row, now) for row in rows])
        wake_after_commit(session)


def tell_news(session: Session, topic: Topic, payloads: Sequence[dict[str, Any]]) -> None:
    """Write rows for administrators that change nothing for operations: runners and waiting agents need not look."""
    session.execute(_ROW, [_values(topic, payload, None, None) for payload in payloads])
    news_after_commit(session)


def _values(
    topic: Topic,
    payload: dict[str, Any],
    repository_id: int | None,
    operation_id: int | None,
    now: datetime | None = None,
) -> dict[str, Any]:
    return {
        "created_at": now or clock.now(),
        "topic": topic,
        "operation_id": operation_id,
        "repository_id": repository_id,
        "payload": payload,
    }


_ROW = insert(OutboxEntry.__table__)  # type: ignore[arg-type]
