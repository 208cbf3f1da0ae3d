"""The audit trail: rows are added, never changed."""

from typing import Any

from sqlalchemy import insert
from sqlalchemy.orm import Session

from holdfast.access.caller import Caller
from holdfast.access.models import ADDRESS_LENGTH, AuditEntry
from holdfast.kit import clock
from holdfast.kit.text import storable


def record(
    session: Session,
    *,
    actor: Caller | None,
    action: str,
    object_type: str | None = None,
    object_id: str | int | None = None,
    outcome: str = "ok",
    address: str | None = None,
    details: dict[str, Any] | None = None,
) -> None:
    """Add an entry in the caller's transaction: the entry and the change are durable together.

    ``details`` must hold no secret.
    """
    address = address or (actor.address if actor else None)
    add(
        session,
        entry(
            actor_user_id=actor.user_id if actor else None,
            actor=actor.username if actor else None,
            action=action,
            object_type=object_type,
            object_id=object_id,
            outcome=outcome,
            address=address,
            details=details,
        ),
    )


def add(session: Session, *entries: dict[str, Any]) -> None:
    """As ``record``, for actors who are not signed in: those who log in, or try to, and agents."""
    if entries:
        session.execute(insert(AuditEntry), entries)


def entry(
    *,
    actor_user_id: int | None,
    actor: str | None,
    action: str,
    object_type: str | None = None,
    object_id: str | int | None = None,
    outcome: str = "ok",
    address: str | None = None,
    details: dict[str, Any] | None = None,
) -> dict[str, Any]:
    return {
        "at": clock.now(),
        "actor_user_id": actor_user_id,
        "actor": actor,
        "action": action,
        "object_type": object_type,
        "object_id": None if object_id is None else storable(str(object_id), 200),
        "outcome": outcome,
        "address": None if address is None else storable(address, ADDRESS_LENGTH),
        "details": _storable_value(details),
    }


def _storable_value(value: Any) -> Any:
    match value:
        case str():
            return storable(value)
        case dict():
            return {storable(str(key)): _storable_value(item) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_storable_value(item) for item in value]
        case None | bool() | int() | float():
            return value
        case _:
            return storable(str(value))
