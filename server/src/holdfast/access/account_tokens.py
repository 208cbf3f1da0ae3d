"""Account tokens: created by a user for scripts, shown once."""

from dataclasses import field
from datetime import timedelta

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from holdfast.access import audit
from holdfast.access.caller import ACCOUNT_TOKEN_PREFIX, Caller, forbidden
from holdfast.access.login import locked_user
from holdfast.access.models import AccountToken
from holdfast.access.roles import Role
from holdfast.access.scopes import TokenScope
from holdfast.errors import Conflict, Forbidden, NotFound
from holdfast.kit import clock
from holdfast.kit.tokens import new_token, token_hash

PREFIX_CHARACTERS = 16
MAX_PER_USER = 100


@frozen
class NewToken:
    row: AccountToken
    token: str = field(repr=False)


def own_tokens(session: Session, caller: Caller) -> list[AccountToken]:
    wanted = select(AccountToken).filter_by(user_id=caller.user_id).order_by(AccountToken.id)
    return list(session.execute(wanted).scalars())


def create(session: Session, caller: Caller, name: str, scope: TokenScope, expires_in_days: int | None) -> NewToken:
    if scope is TokenScope.METRICS and caller.role is not Role.ADMIN:
        raise forbidden(Role.ADMIN)
    locked_user(session, caller.user_id)
    count = select(func.count()).select_from(AccountToken).filter_by(user_id=caller.user_id)
    if session.execute(count).scalar_one() >= MAX_PER_USER:
        raise Conflict("auth.too_many_tokens", f"A user may have {MAX_PER_USER} tokens; revoke one first.")
    token = new_token(ACCOUNT_TOKEN_PREFIX)
    now = clock.now()
    row = AccountToken(
        user_id=caller.user_id,
        name=name,
        token_hash=token_hash(token),
        prefix=token[:PREFIX_CHARACTERS],
        scope=scope,
        created_at=now,
        expires_at=None if expires_in_days is None else now + timedelta(days=expires_in_days),
    )
    session.add(row)
    session.flush()
    _record(session, caller, "auth.token_created", row.id, name)
    return NewToken(row, token)


def revoke(session: Session, caller: Caller, token_id: int) -> None:
    """Revoke one of the caller's own tokens; tokens of other users are reported as not found.

    A request made with an account token can revoke only that token.
    """
    if caller.account_token_id not in (None, token_id):
        raise Forbidden(
            "auth.login_token_required", "An account token can revoke only itself; log in to revoke others."
        )
    own = AccountToken.id == token_id, AccountToken.user_id == caller.user_id
    name = session.execute(delete(AccountToken).where(*own).returning(AccountToken.name)).scalar_one_or_none()
    if name is None:
        raise NotFound("auth.token_not_found", "Token not found.")
    _record(session, caller, "auth.token_revoked", token_id, name)


def end_all(session: Session, user_id: int) -> int:
    """Revoke all tokens of a user and return their number."""
    removed = session.execute(delete(AccountToken).where(AccountToken.user_id == user_id).returning(AccountToken.id))
    return len(removed.scalars().all())


def _record(session: Session, caller: Caller, action: str, token_id: int, name: str) -> None:
    audit.note(session, caller, action, "account_token", token_id, {"name": name})
