"""Invitations: single-use links with which users choose their own passwords, unknown to any admin."""

from datetime import datetime, timedelta

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from holdfast.access import audit, users
from holdfast.access.account import set_password
from holdfast.access.caller import Caller
from holdfast.access.models import User
from holdfast.access.passwords import hash_password
from holdfast.errors import Conflict, NotFound
from holdfast.kit import clock
from holdfast.kit.tokens import new_token, token_hash
from holdfast.settings import Settings
from holdfast.storage.session import Database

PREFIX = "inv_"
DEFAULT_HOURS, MOST_HOURS = 72, 30 * 24


@frozen
class Invited:
    user_id: int
    username: str
    expires_at: datetime


def invite(session: Session, actor: Caller, user_id: int, hours: int) -> tuple[str, Invited]:
    """Create a link for a user and invalidate any earlier one. Raise NotFound, Conflict."""
    user = users.locked(session, user_id)
    if user.disabled:
        raise Conflict("users.disabled", "The user is disabled; enable them first.")
    if user.id == actor.user_id:
        raise Conflict("users.invited_yourself", "Change your own password under your account.")
    token = new_token(PREFIX)
    expires = clock.now() + timedelta(hours=hours)
    user.invitation_hash, user.invitation_expires_at = token_hash(token), expires
    _record(session, actor, "users.invited", user)
    return token, Invited(user.id, user.username, expires)


def withdraw(session: Session, actor: Caller, user_id: int) -> None:
    """Withdraw a user's invitation. Raise NotFound if there is none."""
    user = users.locked(session, user_id)
    if user.invitation_hash is None:
        raise NotFound("users.not_invited", "The user has no open invitation.")
    user.invitation_hash = user.invitation_expires_at = None
    _record(session, actor, "users.invitation_withdrawn", user)


def find(session: Session, token: str) -> Invited:
    """Return the invitation of a token. Raise NotFound if it is unknown, expired, used or withdrawn."""
    return _invited(session.scalars(_with(token)).one_or_none())


def accept(database: Database, settings: Settings, token: str, password: str) -> Invited:
    """Set the password chosen by the user. If several requests use the same invitation, only one succeeds."""
    password_hash = hash_password(password)
    with database.writing() as session:
        user = session.scalars(_with(token).with_for_update()).one_or_none()
        invited = _invited(user)
        assert user is not None
        set_password(session, settings, user, password_hash, must_change=False)
        _record(session, None, "users.invitation_accepted", user)
        return invited


def _with(token: str) -> Select[User]:
    return select(User).where(User.invitation_hash == token_hash(token))


def _invited(user: User | None) -> Invited:
    expires = user.invitation_expires_at if user is not None else None
    if user is None or user.disabled or expires is None or expires <= clock.now():
        raise NotFound(
            "auth.bad_invitation", "The invitation is not valid, has expired or was used. Ask an admin for a new one."
        )
    return Invited(user.id, user.username, expires)


def _record(session: Session, actor: Caller | None, action: str, user: User) -> None:
    details = {"username": user.username}
    audit.record(session, actor=actor, action=action, object_type="user", object_id=user.id, details=details)
