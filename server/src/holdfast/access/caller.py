"""Who is calling, and the guards that routes declare. A route without a guard fails a test."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request, Security
from fastapi.security import APIKeyHeader, HTTPBearer
from sqlalchemy import Executable, RowMapping, bindparam, select
from sqlalchemy.orm import Session

from holdfast.access import access_tokens
from holdfast.access.access_tokens import token_invalid
from holdfast.access.last_used import LastUsed
from holdfast.access.models import AccountToken, LoginSession, User
from holdfast.access.roles import Role
from holdfast.access.vault import Vault
from holdfast.errors import Forbidden, Unauthenticated
from holdfast.kit import clock
from holdfast.kit.tokens import token_hash
from holdfast.settings import Settings
from holdfast.storage.session import Database

ACCOUNT_TOKEN_PREFIX = "bk_user_"  # noqa: S105 - the part of a token that is no secret
PREFERRED_HEADER = "X-Backup-Authorization"

Guard = TypeVar("Guard", bound=Callable[..., Any])


@dataclass(frozen=True)
class Caller:
    user_id: int
    username: str
    role: Role
    all_repositories_role: Role | None
    session_id: int | None
    account_token_id: int | None
    must_change_password: bool
    address: str | None


def guard(dependency: Guard) -> Guard:
    """Mark a dependency as one that decides who may call a route."""
    dependency.is_guard = True  # type: ignore[attr-defined]
    return dependency


def address_of(request: Request) -> str | None:
    """The peer's address. Headers that claim another one are anybody's to write, so they are not read here."""
    return request.client.host if request.client else None


# Statements -----------------------------------------------------------------------------------------------------------

USER_COLUMNS = (
    User.id.label("user_id"),
    User.username,
    User.role,
    User.all_repositories_role,
    User.must_change_password,
    User.disabled,
)
SESSION_COLUMNS = (LoginSession.id.label("session_id"), LoginSession.last_used_at, LoginSession.ended_at)
TOKEN_COLUMNS = (AccountToken.id.label("account_token_id"), AccountToken.last_used_at)

_SESSION = select(*USER_COLUMNS, *SESSION_COLUMNS).join(LoginSession, LoginSession.user_id == User.id)
_TOKEN = select(*USER_COLUMNS, *TOKEN_COLUMNS).join(AccountToken, AccountToken.user_id == User.id)

SESSION_BY_PUBLIC_ID = _SESSION.where(LoginSession.public_id == bindparam("wanted"))
SESSION_BY_ID = _SESSION.where(LoginSession.id == bindparam("wanted"))
TOKEN_BY_HASH = _TOKEN.where(AccountToken.token_hash == bindparam("wanted"))
TOKEN_BY_ID = _TOKEN.where(AccountToken.id == bindparam("wanted"))


# From a credential to a caller ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Identified:
    """A caller, and when the store last noted that the credential was used."""

    caller: Caller
    last_used_at: datetime | None


def bearer(request: Request) -> str:
    """Given a request, return the credential it carries. Raise Unauthenticated if it carries none."""
    header = request.headers.get(PREFERRED_HEADER)
    if header is None:
        header = request.headers.get("Authorization")
    if header is None:
        raise Unauthenticated("auth.credential_missing", "This route needs a credential.")
    scheme, _, credential = header.strip().partition(" ")
    if scheme.lower() != "bearer" or not credential.strip():
        raise token_invalid()
    return credential.strip()


def identify(
    database: Database, settings: Settings, vault: Vault, credential: str, address: str | None, *, may_be_expired: bool
) -> Identified:
    """Given a credential, return who it belongs to, as the store says now. Raise Unauthenticated."""
    now = clock.now()
    if credential.startswith(ACCOUNT_TOKEN_PREFIX):
        return _of_row(_row(database, TOKEN_BY_HASH, token_hash(credential)), settings, address, now)
    token = access_tokens.read(vault, credential)
    if token.expires_at <= now and not may_be_expired:
        raise Unauthenticated("auth.token_expired", "The access token has expired; refresh it or log in again.")
    return _of_row(_row(database, SESSION_BY_PUBLIC_ID, token.session), settings, address, now)


def still_valid(session: Session, settings: Settings, caller: Caller) -> Caller | None:
    """Given a caller of some time ago, return them as they are now, or None once their credential is gone.

    For what outlives a request: an event stream, a ticket.
    """
    statement = SESSION_BY_ID if caller.session_id is not None else TOKEN_BY_ID
    wanted = caller.session_id if caller.session_id is not None else caller.account_token_id
    row = session.connection().execute(statement, {"wanted": wanted}).mappings().one_or_none()
    try:
        return _of_row(row, settings, caller.address, clock.now()).caller
    except Unauthenticated:
        return None


def _row(database: Database, statement: Executable, wanted: str) -> RowMapping | None:
    """A transaction of its own, ended here: a connection kept while the route waits for a thread could starve both."""
    with database.reading() as session:
        return session.connection().execute(statement, {"wanted": wanted}).mappings().one_or_none()


def _of_row(row: RowMapping | None, settings: Settings, address: str | None, now: datetime) -> Identified:
    if row is None or row["disabled"]:
        raise token_invalid()
    if "session_id" in row and _has_ended(row, settings, now):
        raise Unauthenticated("auth.session_ended", "The session has ended; log in again.")
    caller = Caller(
        user_id=row["user_id"],
        username=row["username"],
        role=row["role"],
        all_repositories_role=row["all_repositories_role"],
        session_id=row.get("session_id"),
        account_token_id=row.get("account_token_id"),
        must_change_password=row["must_change_password"],
        address=address,
    )
    return Identified(caller, row["last_used_at"])


def _has_ended(row: RowMapping, settings: Settings, now: datetime) -> bool:
    idle: timedelta = now - row["last_used_at"]
    return row["ended_at"] is not None or idle > timedelta(days=settings.session_idle_days)


# Guards ---------------------------------------------------------------------------------------------------------------

# Only for the OpenAPI document: the credential itself is read by ``bearer``, which knows which header wins.
PreferredHeader = Annotated[
    str | None, Security(APIKeyHeader(name=PREFERRED_HEADER, scheme_name="BackupBearer", auto_error=False))
]
BearerHeader = Annotated[Any, Security(HTTPBearer(scheme_name="Bearer", auto_error=False))]


@guard
async def public() -> None:
    """Marks a route as open to everyone, on purpose."""


def _identified(request: Request, *, may_be_expired: bool) -> Caller:
    state = request.app.state  # not asked for as dependencies: nearly every route would resolve them, at every request
    found = identify(
        state.database, state.settings, state.vault, bearer(request), address_of(request), may_be_expired=may_be_expired
    )
    request.state.caller = found.caller
    last_used: LastUsed = state.last_used
    caller = found.caller
    if caller.session_id is not None:
        last_used.touch("session", caller.session_id, found.last_used_at, clock.now())
    elif caller.account_token_id is not None:
        last_used.touch("token", caller.account_token_id, found.last_used_at, clock.now())
    return caller


@guard
def signed_in_even_if_password_must_change(
    request: Request, _preferred: PreferredHeader = None, _bearer: BearerHeader = None
) -> Caller:
    return _identified(request, may_be_expired=False)


SignedInEvenIfPasswordMustChange = Annotated[Caller, Depends(signed_in_even_if_password_must_change)]


@guard
async def signed_in(caller: SignedInEvenIfPasswordMustChange) -> Caller:
    return with_final_password(caller)


SignedIn = Annotated[Caller, Depends(signed_in)]


@guard
async def login_only_even_if_password_must_change(caller: SignedInEvenIfPasswordMustChange) -> Caller:
    return _of_login(caller)


LoginOnlyEvenIfPasswordMustChange = Annotated[Caller, Depends(login_only_even_if_password_must_change)]


@guard
async def login_only(caller: SignedIn) -> Caller:
    return _of_login(caller)


LoginOnly = Annotated[Caller, Depends(login_only)]


@guard
async def admin_only(caller: SignedIn) -> Caller:
    if caller.role is not Role.ADMIN:
        raise forbidden(Role.ADMIN)
    return caller


AdminOnly = Annotated[Caller, Depends(admin_only)]


@guard
def session_to_refresh(request: Request, _preferred: PreferredHeader = None, _bearer: BearerHeader = None) -> Caller:
    """As ``login_only``, but an access token that has expired still names its session."""
    caller = _identified(request, may_be_expired=True)
    return _of_login(with_final_password(caller))


SessionToRefresh = Annotated[Caller, Depends(session_to_refresh)]


def with_final_password(caller: Caller) -> Caller:
    if caller.must_change_password:
        raise Forbidden("auth.password_change_required", "The password must be changed before anything else.")
    return caller


def _of_login(caller: Caller) -> Caller:
    if caller.session_id is None:
        raise Forbidden(
            "auth.login_token_required", "This route takes a token of a normal login, not an account token."
        )
    return caller


def forbidden(required: Role) -> Forbidden:
    return Forbidden("access.forbidden", f"This needs the role {required}.", required=str(required))
