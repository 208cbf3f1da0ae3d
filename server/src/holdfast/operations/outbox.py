"""The outbox: what happened, written in the transaction that made it happen, for whoever wants to know."""

from typing import Any

from sqlalchemy import insert
from sqlalchemy.orm import Session

from holdfast.kit import clock
from holdfast.operations.models import OutboxEntry
from holdfast.storage.session import wake_after_commit


def tell(
    session: Session,
    topic: str,
    payload: dict[str, Any],
    *,
    repository_id: int | None,
    operation_id: int | None = None,
) -> None:
    """Write a row. Those who may see the repository hear of it; without one, administrators alone."""
    session.execute(
        _ROW,
        {
            "created_at": clock.now(),
            "topic": topic,
            "operation_id": operation_id,
            "repository_id": repository_id,
            "payload": payload,
        },
    )
    wake_after_commit(session)


_ROW = insert(OutboxEntry.__table__)  # type: ignore[arg-type]
