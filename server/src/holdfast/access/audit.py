"""The audit trail. Entries are added and never changed."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict, Unpack

from sqlalchemy import insert
from sqlalchemy.orm import Session

from holdfast.access.caller import Caller
from holdfast.access.models import ADDRESS_LENGTH, AuditEntry
from holdfast.kit import clock
from holdfast.kit.text import storable

Follower = Callable[[Session, Sequence[Mapping[str, Any]]], None]
"""Called with new entries, in the transaction that adds them."""

_followers: list[Follower] = []


def followed_by(follower: Follower) -> None:
    """Register a follower, for higher layers that report changes. Followers are global to the process."""
    if follower not in _followers:
        _followers.append(follower)


class About(TypedDict, total=False):
    """The object, outcome and details of an entry."""

    object_type: str | None
    object_id: str | int | None
    outcome: str
    details: dict[str, Any] | None


def record(
    session: Session,
    *,
    actor: Caller | None,
    action: str,
    address: str | None = None,
    **about: Unpack[About],
) -> None:
    """Add an entry in the caller's transaction, so that the entry and the change are committed together.

    ``details`` must not contain secrets.
    """
    number, name = (actor.user_id, actor.username) if actor else (None, None)
    address = address or (actor.address if actor else None)
    add(session, entry(actor_user_id=number, actor=name, action=action, address=address, **about))


def note(
    session: Session,
    actor: Caller,
    action: str,
    object_type: str,
    object_id: str | int,
    details: dict[str, Any] | None = None,
) -> None:
    """Like ``record``, for an action of a caller on an object."""
    record(session, actor=actor, action=action, object_type=object_type, object_id=object_id, details=details)


def add(session: Session, *entries: dict[str, Any]) -> None:
    """Add entries whose actor is not a signed-in caller: login attempts and agents."""
    if entries:
        session.execute(insert(AuditEntry), entries)
        for follower in _followers:
            follower(session, entries)


def entry(
    *,
    actor_user_id: int | None,
    actor: str | None,
    action: str,
    address: str | None = None,
    **about: Unpack[About],
) -> dict[str, Any]:
    object_id = about.get("object_id")
    return {
        "at": clock.now(),
        "actor_user_id": actor_user_id,
        "actor": actor,
        "action": action,
        "object_type": about.get("object_type"),
        "object_id": None if object_id is None else storable(str(object_id), 200),
        "outcome": about.get("outcome", "ok"),
        "address": None if address is None else storable(address, ADDRESS_LENGTH),
        "details": _storable_value(about.get("details")),
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
