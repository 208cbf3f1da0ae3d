"""All statements on download tickets."""

from datetime import datetime, timedelta
from typing import Any, cast

from sqlalchemy import CursorResult, delete, func, select
from sqlalchemy.orm import Session

from holdfast.access.caller import Caller
from holdfast.downloads.tickets.models import DownloadTicket
from holdfast.errors import TooManyRequests
from holdfast.kit.tokens import new_token, token_hash

SECONDS = 60
MOST_PER_USER = 20
PREFIX = "dl_"


def add(session: Session, caller: Caller, wanted: dict[str, Any], now: datetime) -> str:
    """Store a ticket and return its token. Raise TooManyRequests if the user has too many unused tickets."""
    session.execute(delete(DownloadTicket).where(DownloadTicket.expires_at <= now))
    waiting = session.scalar(
        select(func.count()).select_from(DownloadTicket).where(DownloadTicket.user_id == caller.user_id)
    )
    if (waiting or 0) >= MOST_PER_USER:
        message = f"You have {MOST_PER_USER} unused download tickets; use them, or wait a minute."
        raise TooManyRequests("downloads.too_many_tickets", message, retry_after=SECONDS)
    token = new_token(PREFIX)
    ticket = DownloadTicket(
        token_hash=token_hash(token),
        user_id=caller.user_id,
        session_id=caller.session_id,
        account_token_id=caller.account_token_id,
        wanted=wanted,
        expires_at=now + timedelta(seconds=SECONDS),
    )
    session.add(ticket)
    return token


def find(session: Session, token: str, now: datetime) -> DownloadTicket | None:
    statement = select(DownloadTicket).where(
        DownloadTicket.token_hash == token_hash(token), DownloadTicket.expires_at > now
    )
    return session.scalars(statement).one_or_none()


def use(session: Session, ticket_id: int) -> bool:
    """Remove a ticket and return whether it existed. Of several requests with the same ticket, only one succeeds."""
    removed = session.execute(delete(DownloadTicket).where(DownloadTicket.id == ticket_id))
    return cast("CursorResult[Any]", removed).rowcount == 1
