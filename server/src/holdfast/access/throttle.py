"""Counts failed logins in the store: after five within 15 minutes, further attempts are refused for 15 minutes.

An attempt counts as failed before it is checked, and is uncounted if it succeeds. So even of simultaneous guesses, in
any number of processes, only five are tried.
"""

import math
import threading
from datetime import datetime, timedelta
from ipaddress import IPv6Address, ip_address, ip_network

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from holdfast.access.models import ADDRESS_LENGTH, LoginFailure
from holdfast.access.usernames import username_key
from holdfast.errors import TooManyRequests
from holdfast.kit.text import storable
from holdfast.storage.inserts import insert_unless_there

MAX_FAILURES = 5
WINDOW = timedelta(minutes=15)
BLOCK = timedelta(minutes=15)
# Wrong codes are counted per user, whatever the address: the sender already knows the password.
CODE_ADDRESS = "code"


@frozen
class Attempts:
    """The key under which failures are counted together."""

    username_key: str
    address: str


def password_attempts(username: str, address: str | None) -> Attempts:
    return Attempts(username_key(username), _network(address))


def code_attempts(username: str) -> Attempts:
    return Attempts(username_key(username), CODE_ADDRESS)


def count(session: Session, attempts: Attempts, now: datetime) -> None:
    """Count an attempt as failed for now. Raise TooManyRequests if no further attempt is allowed."""
    row = _locked_row(session, attempts, now)
    if row.blocked_until is not None and row.blocked_until > now:
        seconds = math.ceil((row.blocked_until - now).total_seconds())
        raise TooManyRequests("auth.too_many_failures", "Too many failed logins; try again later.", retry_after=seconds)
    recent = [moment for moment in row.failed_at if datetime.fromisoformat(moment) > now - WINDOW]
    row.failed_at = [*recent, now.isoformat()]
    row.blocked_until = now + BLOCK if len(row.failed_at) >= MAX_FAILURES else None
    row.updated_at = now


def take_back(session: Session, attempts: Attempts, now: datetime) -> None:
    """Uncount the latest attempt: it did not fail, although it has not completed the login either."""
    row = _locked_row(session, attempts, now)
    row.failed_at = row.failed_at[:-1]
    row.blocked_until = None


def forget(session: Session, attempts: Attempts) -> None:
    """Drop earlier failures after a successful login: they were the user's own."""
    session.execute(
        delete(LoginFailure).where(
            LoginFailure.username_key == attempts.username_key, LoginFailure.address == attempts.address
        )
    )


def purge(session: Session, now: datetime) -> None:
    session.execute(delete(LoginFailure).where(LoginFailure.updated_at < now - WINDOW - BLOCK))


# Attempts of one user in this process take turns, so that simultaneous correct passwords do not count against each
# other.
_TURNS = [threading.Lock() for _ in range(64)]


def turn(attempts: Attempts) -> threading.Lock:
    return _TURNS[hash(attempts) % len(_TURNS)]


def _locked_row(session: Session, attempts: Attempts, now: datetime) -> LoginFailure:
    identity = {"username_key": attempts.username_key, "address": attempts.address}
    wanted = select(LoginFailure).filter_by(**identity).with_for_update()
    while True:  # a successful login elsewhere may remove the row between the two statements
        insert_unless_there(session, LoginFailure, {**identity, "failed_at": [], "updated_at": now})
        row = session.execute(wanted).scalar_one_or_none()
        if row is not None:
            return row


def _network(address: str | None) -> str:
    """The address, or its /64 network for IPv6: a single host can choose from all addresses in it."""
    try:
        parsed = ip_address(address or "")
    except ValueError:
        return storable(address or "unknown", ADDRESS_LENGTH)
    if isinstance(parsed, IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ip_network((int(parsed), 64), strict=False))
    return str(parsed)
