"""Browser logins: a cookie that can only refresh, next to the access token that the page keeps in memory.

Only `/api/auth/refresh` and `/api/auth/logout` read the cookie, and both require a header that other sites cannot send,
so no other route can be called on a user's behalf. Each use of the cookie replaces it. The next cookie is derived from
the current one, so a request that is repeated because its response was lost gets the same one again. If a replaced
cookie is used later than that, it has been copied, and its session ends.
"""

from datetime import timedelta

from sqlalchemy import or_, select, update
from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from holdfast.access import audit, sessions
from holdfast.access.models import LoginSession, User
from holdfast.access.vault import Vault
from holdfast.errors import Unauthenticated
from holdfast.kit import clock
from holdfast.kit.tokens import new_token, next_token, token_hash
from holdfast.settings import Settings

PREFIX = "bk_web_"
GRACE = timedelta(seconds=10)
"""How long the previous cookie still gets the current one: the response may have been lost, or two tabs may have
refreshed at once.
"""


@frozen
class Refreshed:
    public_id: str
    must_change_password: bool
    cookie: str | None
    """The current cookie, or None if it cannot be derived because the service's key has just been replaced."""


def begin(session: Session, public_id: str) -> str:
    """Create a cookie for the login session and return it."""
    cookie = new_token(PREFIX)
    changed = update(LoginSession).where(LoginSession.public_id == public_id)
    session.execute(changed.values(refresh_hash=token_hash(cookie), refreshed_at=clock.now()))
    return cookie


def refresh(session: Session, settings: Settings, vault: Vault, cookie: str, address: str | None) -> Refreshed | None:
    """Replace the cookie. Return None if it is not valid; if it had already been replaced, also end the session."""
    now, wanted = clock.now(), token_hash(cookie)
    found = session.execute(
        select(LoginSession, User)
        .join(User, User.id == LoginSession.user_id)
        .where(or_(LoginSession.refresh_hash == wanted, LoginSession.earlier_refresh_hash == wanted))
        .with_for_update(of=LoginSession)
    ).one_or_none()
    if found is None:
        return None
    login, user = found
    if (
        login.ended_at is not None
        or user.disabled
        or now - login.last_used_at > timedelta(days=settings.session_idle_days)
    ):
        return None
    following = next_token(PREFIX, vault.cookie_key(), f"{login.public_id}|{cookie}")
    if login.refresh_hash == wanted:
        login.earlier_refresh_hash, login.refresh_hash = wanted, token_hash(following)
        login.refreshed_at = login.last_used_at = now
        return Refreshed(login.public_id, user.must_change_password, following)
    if login.refreshed_at is not None and abs(now - login.refreshed_at) <= GRACE:
        is_current = login.refresh_hash == token_hash(following)
        return Refreshed(login.public_id, user.must_change_password, following if is_current else None)
    sessions.end(session, login.id, now)
    audit.add(
        session,
        audit.entry(
            actor_user_id=user.id,
            actor=user.username,
            action="auth.cookie_reused",
            outcome="auth.session_ended",
            address=address,
        ),
    )
    return None


def session_ended() -> Unauthenticated:
    return Unauthenticated("auth.session_ended", "The session has ended; log in again.")
