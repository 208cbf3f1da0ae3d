"""Start and end login sessions."""

import secrets
from datetime import datetime, timedelta

from sqlalchemy import delete, or_, update
from sqlalchemy.orm import Session

from holdfast.access.models import ADDRESS_LENGTH, LoginChallenge, LoginSession
from holdfast.kit.text import storable
from holdfast.settings import Settings

ENDED_ARE_KEPT = timedelta(days=30)


def start(session: Session, user_id: int, address: str | None, now: datetime) -> LoginSession:
    login = LoginSession(
        public_id=secrets.token_urlsafe(32),
        user_id=user_id,
        address=None if address is None else storable(address, ADDRESS_LENGTH),
        created_at=now,
        last_used_at=now,
    )
    session.add(login)
    session.flush()
    return login


def end(session: Session, session_id: int, now: datetime) -> None:
    session.execute(
        update(LoginSession).where(LoginSession.id == session_id, LoginSession.ended_at.is_(None)).values(ended_at=now)
    )


def end_all(session: Session, user_id: int, now: datetime, *, except_session: int | None = None) -> None:
    """End the user's sessions, and their logins that still await a code."""
    alive = (LoginSession.user_id == user_id, LoginSession.ended_at.is_(None))
    statement = update(LoginSession).where(*alive).values(ended_at=now)
    if except_session is not None:
        statement = statement.where(LoginSession.id != except_session)
    session.execute(statement)
    session.execute(delete(LoginChallenge).where(LoginChallenge.user_id == user_id))


def purge(session: Session, settings: Settings, now: datetime) -> None:
    """Remove sessions that ended long ago, and challenges that were never completed."""
    unused_since = now - timedelta(days=settings.session_idle_days) - ENDED_ARE_KEPT
    session.execute(
        delete(LoginSession).where(
            or_(LoginSession.ended_at < now - ENDED_ARE_KEPT, LoginSession.last_used_at < unused_since)
        )
    )
    session.execute(delete(LoginChallenge).where(LoginChallenge.expires_at < now))
