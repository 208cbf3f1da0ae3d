"""The outbox: events for subscribers, written in the transaction that caused them."""

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
"""The topics of rows. Each is also an event of the stream, with its schema in `event_schemas`."""


def publish(
    session: Session,
    topic: Topic,
    payload: dict[str, Any],
    *,
    repository_id: int | None,
    operation_id: int | None = None,
) -> None:
    """Write a row, visible to users who may see the repository; without a repository, to administrators only."""
    session.execute(_ROW, _values(topic, payload, repository_id, operation_id))
    wake_after_commit(session)


def publish_many(session: Session, topic: Topic, rows: Sequence[tuple[dict[str, Any], int | None, int | None]]) -> None:
    """Like `publish`, for many rows, each with a payload, a repository id and an operation id."""
    if rows:
        now = clock.now()
        insert_many(session, OutboxEntry, [_values(topic, *row, now) for row in rows])
        wake_after_commit(session)


def publish_for_admins(session: Session, topic: Topic, payloads: Sequence[dict[str, Any]]) -> None:
    """Write rows for administrators that do not affect operations, without waking runners and waiting agents."""
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
