"""The caller of a request, and the guards that routes declare. A test fails for routes without a guard."""

from collections.abc import Callable, Hashable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request, Security
from fastapi.security import APIKeyHeader, HTTPBearer
from sqlalchemy import Executable, bindparam, select
from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from holdfast.access import access_tokens, browser_requests
from holdfast.access.access_tokens import token_invalid
from holdfast.access.key_file import Key
from holdfast.access.last_used import LAST_USED
from holdfast.access.models import AccountToken, LoginSession, User
from holdfast.access.roles import Role
from holdfast.access.scopes import TokenScope, below_ceiling
from holdfast.access.vault import Vault
from holdfast.api.authenticated_connections import mark_authenticated
from holdfast.api.dependencies import SETTINGS
from holdfast.api.parts import Part
from holdfast.api.shared_lookups import SharedLookups
from holdfast.api.threads import in_thread
from holdfast.errors import Forbidden, NotFound, Unauthenticated, Unavailable
from holdfast.kit import clock
from holdfast.kit.tokens import token_hash
from holdfast.settings import Settings
from holdfast.storage.read_cache import Proof, Query, ReadCache
from holdfast.storage.session import Database, Reading

ACCOUNT_TOKEN_PREFIX = "bk_user_"  # noqa: S105 - the public part of a token
PREFERRED_HEADER = "X-Backup-Authorization"
SAFE_METHODS = frozenset({"GET", "HEAD"})
MOST_KNOWN = 10_000
"""Maximum number of cached credentials."""

Guard = TypeVar("Guard", bound=Callable[..., Any])
Row = dict[str, Any]
"""A user with the session or token they used: the columns below, by name."""


@frozen
class Caller:
    user_id: int
    username: str
    role: Role
    all_repositories_role: Role | None
    session_id: int | None
    account_token_id: int | None
    must_change_password: bool
    address: str | None
    token_scope: TokenScope | None = None

    @property
    def view(self) -> tuple[object, ...]:
        """Everything about the caller that affects what they see: callers with equal views see the same."""
        return (self.user_id, self.role, self.all_repositories_role, self.token_scope)

    def within_scope(self) -> "Caller":
        """The caller, limited to the scope of their token. Raise Forbidden if the token may only read."""
        if self.token_scope is None:
            return self
        ceiling = self.token_scope.ceiling
        if ceiling is None:
            raise Forbidden(
                "auth.scope_too_narrow",
                "This account token may only read. Create one with a wider scope, or log in.",
                scope=self.token_scope,
            )
        role, all_repositories_role = below_ceiling(ceiling, self.role, self.all_repositories_role)
        return replace(self, role=role, all_repositories_role=all_repositories_role)


def guard(dependency: Guard) -> Guard:
    """Mark a dependency as a guard: it decides who may call a route."""
    dependency.is_guard = True  # type: ignore[attr-defined]
    return dependency


def address_of(request: Request) -> str | None:
    """The peer's address. Headers that claim another address are ignored here, because anyone can write them."""
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
TOKEN_COLUMNS = (
    AccountToken.id.label("account_token_id"),
    AccountToken.last_used_at,
    AccountToken.scope,
    AccountToken.expires_at,
)

_SESSION = select(*USER_COLUMNS, *SESSION_COLUMNS).join(LoginSession, LoginSession.user_id == User.id)
_TOKEN = select(*USER_COLUMNS, *TOKEN_COLUMNS).join(AccountToken, AccountToken.user_id == User.id)

SESSION_BY_PUBLIC_ID = _SESSION.where(LoginSession.public_id == bindparam("wanted"))
SESSION_BY_ID = _SESSION.where(LoginSession.id == bindparam("wanted"))
TOKEN_BY_HASH = _TOKEN.where(AccountToken.token_hash == bindparam("wanted"))
TOKEN_BY_ID = _TOKEN.where(AccountToken.id == bindparam("wanted"))

_SESSION_QUERY = Query(SESSION_BY_PUBLIC_ID, "wanted")
_TOKEN_QUERY = Query(TOKEN_BY_HASH, "wanted")


# From a credential to a caller ----------------------------------------------------------------------------------------


@frozen
class CredentialRecord:
    """The stored record behind a valid credential. Whether it still grants access is decided at each use."""

    row: Row
    expires_at: datetime | None
    """Expiry of the access token; account tokens have theirs in the row."""
    keys: tuple[Key, ...]
    """The service's keys at the time when the token's signature was verified."""
    proof: Proof


@frozen
class IdentifiedCaller:
    """A caller, and the stored time at which the credential was last used."""

    caller: Caller
    last_used_at: datetime | None


def bearer(request: Request) -> str:
    """Return the credential of a request. Raise Unauthenticated if there is none."""
    header = request.headers.get(PREFERRED_HEADER)
    if header is None:
        header = request.headers.get("Authorization")
    if header is None:
        raise Unauthenticated("auth.credential_missing", "This request needs a credential.")
    scheme, _, credential = header.strip().partition(" ")
    if scheme.lower() != "bearer" or not credential.strip():
        raise token_invalid()
    return credential.strip()


def has_credential(request: Request) -> bool:
    return PREFERRED_HEADER in request.headers or "Authorization" in request.headers


def identify(
    database: Database, settings: Settings, vault: Vault, credential: str, address: str | None, *, may_be_expired: bool
) -> IdentifiedCaller:
    """Return the owner of a credential as they are now. Raise Unauthenticated."""
    known = look_up(database.reading, vault, credential)
    return _admitted(known, settings, address, may_be_expired=may_be_expired)


def look_up(reading: Reading, vault: Vault, credential: str) -> CredentialRecord:
    """Return the stored record of a credential. Raise Unauthenticated if the credential is not valid."""
    keys = vault.keys
    if credential.startswith(ACCOUNT_TOKEN_PREFIX):
        wanted, expires_at, query = token_hash(credential), None, _TOKEN_QUERY
        row = _row(reading, TOKEN_BY_HASH, wanted)
    else:
        token = access_tokens.read(vault, credential)
        wanted, expires_at, query = token.session, token.expires_at, _SESSION_QUERY
        row = _row(reading, SESSION_BY_PUBLIC_ID, wanted)
    if row is None:
        raise token_invalid()
    return CredentialRecord(row, expires_at, keys, ((query, wanted),))


def _admitted(
    known: CredentialRecord, settings: Settings, address: str | None, *, may_be_expired: bool
) -> IdentifiedCaller:
    now = clock.now()
    if known.expires_at is not None and known.expires_at <= now and not may_be_expired:
        raise Unauthenticated("auth.token_expired", "The access token has expired; refresh it or log in again.")
    return _of_row(known.row, settings, address, now)


class Identities:
    """Cache of the owners of credentials. An entry stays valid until one of the rows it was read from changes."""

    def __init__(self, settings: Settings, database: Database, vault: Vault) -> None:
        self._settings = settings
        self._database = database
        self._vault = vault
        self._known: ReadCache[CredentialRecord] = ReadCache(database.version, MOST_KNOWN, lambda known: known.proof)
        self._lookups: SharedLookups[CredentialRecord] = SharedLookups(
            self._remembered, is_cached=database.version is not None
        )

    async def identify(self, credential: str, address: str | None, *, may_be_expired: bool) -> IdentifiedCaller:
        """Like the function ``identify``, but without a thread if the credential is cached."""
        known = self._remembered(credential) or self._renewed(credential)
        if known is None:
            known = await self._lookups.of(credential, partial(self._look_up, credential))
        return _admitted(known, self._settings, address, may_be_expired=may_be_expired)

    def _remembered(self, credential: Hashable) -> CredentialRecord | None:
        known = self._known.get(credential)
        return known if known is not None and known.keys is self._vault.keys else None

    def _renewed(self, credential: str) -> CredentialRecord | None:
        """Look up a credential that was valid before, directly on the event loop: reading one row is cheaper than using
        a thread.

        Unknown credentials go to a thread, because strangers can send any number of them.
        """
        if self._known.earlier(credential) is None:
            return None
        try:
            return self._known.read(
                credential, partial(look_up, self._database.reading_at_once, self._vault, credential)
            )
        except Unavailable:
            return None

    async def _look_up(self, credential: str) -> CredentialRecord:
        read = partial(look_up, self._database.reading, self._vault, credential)
        return await in_thread("reading", partial(self._known.read, credential, read))


IDENTITIES = Part[Identities]("identities")


def still_valid(session: Session, settings: Settings, caller: Caller) -> Caller | None:
    """Return an earlier caller as they are now, or None if their credential is no longer valid.

    For objects that outlive a request, such as tickets.
    """
    try:
        return reauthenticated(session, settings, caller)
    except Unauthenticated:
        return None


def reauthenticated(session: Session, settings: Settings, caller: Caller) -> Caller:
    """Like ``still_valid``, but raise Unauthenticated if the credential is no longer valid."""
    statement = SESSION_BY_ID if caller.session_id is not None else TOKEN_BY_ID
    wanted = caller.session_id if caller.session_id is not None else caller.account_token_id
    row = _read(session, statement, wanted)
    return _of_row(row, settings, caller.address, clock.now()).caller


def _row(reading: Reading, statement: Executable, wanted: str) -> Row | None:
    """Read one row in a transaction that ends here.

    If the route kept the connection while waiting for a thread, it could exhaust both.
    """
    with reading() as session:
        return _read(session, statement, wanted)


def _read(session: Session, statement: Executable, wanted: int | str | None) -> Row | None:
    """Return the row as a plain dictionary: every request reads it, and looks up columns that may be absent."""
    found = session.connection().execute(statement, {"wanted": wanted}).mappings().one_or_none()
    return None if found is None else dict(found)


def _of_row(row: Row | None, settings: Settings, address: str | None, now: datetime) -> IdentifiedCaller:
    if row is None or row["disabled"]:
        raise token_invalid()
    if "session_id" in row and _has_ended(row, settings, now):
        raise Unauthenticated("auth.session_ended", "The session has ended; log in again.")
    expires_at = row.get("expires_at")
    if expires_at is not None and expires_at <= now:
        raise Unauthenticated("auth.token_expired", "The account token has expired; create a new one.")
    scope = row.get("scope")
    caller = Caller(
        user_id=row["user_id"],
        username=row["username"],
        role=row["role"],
        all_repositories_role=row["all_repositories_role"],
        session_id=row.get("session_id"),
        account_token_id=row.get("account_token_id"),
        must_change_password=row["must_change_password"],
        address=address,
        token_scope=None if scope is None else TokenScope(scope),
    )
    return IdentifiedCaller(caller, row["last_used_at"])


def _has_ended(row: Row, settings: Settings, now: datetime) -> bool:
    idle: timedelta = now - row["last_used_at"]
    return row["ended_at"] is not None or idle > timedelta(days=settings.session_idle_days)


# Guards ---------------------------------------------------------------------------------------------------------------

# Only for the OpenAPI document: ``bearer`` reads the credential itself and decides which header takes precedence.
PreferredHeader = Annotated[
    str | None, Security(APIKeyHeader(name=PREFERRED_HEADER, scheme_name="BackupBearer", auto_error=False))
]
BearerHeader = Annotated[Any, Security(HTTPBearer(scheme_name="Bearer", auto_error=False))]


@guard
async def public() -> None:
    """Mark a route as deliberately open to everyone."""


async def _identified(
    request: Request,
    *,
    may_be_expired: bool = False,
    only_reads: bool = False,
    for_metrics: bool = False,
    credential: str | None = None,
) -> Caller:
    app = request.app  # dependencies would be resolved for nearly every request
    identities = IDENTITIES.of(app)
    given = bearer(request) if credential is None else credential
    found = await identities.identify(given, address_of(request), may_be_expired=may_be_expired)
    request.state.caller = found.caller
    if found.caller.token_scope is TokenScope.METRICS and not for_metrics:
        raise Forbidden(
            "auth.scope_too_narrow",
            "This account token may only read /metrics. Create one with another scope, or log in.",
            scope=TokenScope.METRICS,
        )
    mark_authenticated(request.scope)
    last_used = LAST_USED.of(app)
    caller = found.caller if only_reads or request.method in SAFE_METHODS else found.caller.within_scope()
    if caller.session_id is not None:
        last_used.touch("session", caller.session_id, found.last_used_at, clock.now())
    elif caller.account_token_id is not None:
        last_used.touch("token", caller.account_token_id, found.last_used_at, clock.now())
    return caller


async def identified_by(request: Request, credential: str | None = None) -> Caller:
    """Identify the owner of this credential, or of the one in the request, for handlers outside the API's routes."""
    return await _identified(request, only_reads=True, credential=credential)


@guard
async def signed_in_even_if_password_must_change(
    request: Request, _preferred: PreferredHeader = None, _bearer: BearerHeader = None
) -> Caller:
    return await _identified(request)


SignedInEvenIfPasswordMustChange = Annotated[Caller, Depends(signed_in_even_if_password_must_change)]


@guard
async def signed_in(caller: SignedInEvenIfPasswordMustChange) -> Caller:
    return with_final_password(caller)


SignedIn = Annotated[Caller, Depends(signed_in)]


@guard
async def identified(request: Request, _preferred: PreferredHeader = None, _bearer: BearerHeader = None) -> Caller:
    """Any signed-in caller, whatever the scope of their token."""
    return await _identified(request, only_reads=True)


@guard
async def signed_in_to_read(caller: Annotated[Caller, Depends(identified)]) -> Caller:
    """Like ``signed_in``, for routes that change nothing despite their method: a token of any scope is enough."""
    return with_final_password(caller)


SignedInToRead = Annotated[Caller, Depends(signed_in_to_read)]


@guard
async def login_only_even_if_password_must_change(caller: Annotated[Caller, Depends(identified)]) -> Caller:
    return _of_login(caller)


LoginOnlyEvenIfPasswordMustChange = Annotated[Caller, Depends(login_only_even_if_password_must_change)]


@guard
async def login_only(caller: SignedInToRead) -> Caller:
    return _of_login(caller)


LoginOnly = Annotated[Caller, Depends(login_only)]


@guard
async def admin_only(caller: SignedIn) -> Caller:
    return require_admin(caller)


AdminOnly = Annotated[Caller, Depends(admin_only)]


@guard
async def admin_login_only(caller: LoginOnly) -> Caller:
    """For actions with which an account token could outlive or exceed itself: users, rights and new credentials."""
    return require_admin(caller)


AdminLoginOnly = Annotated[Caller, Depends(admin_login_only)]


@guard
async def session_to_refresh(
    request: Request, _preferred: PreferredHeader = None, _bearer: BearerHeader = None
) -> Caller:
    """Like ``login_only``, but also accept an expired access token: it still identifies its session."""
    caller = await _identified(request, may_be_expired=True, only_reads=True)
    return _of_login(with_final_password(caller))


@guard
async def session_to_refresh_or_browser(
    request: Request, _preferred: PreferredHeader = None, _bearer: BearerHeader = None
) -> Caller | None:
    """Like ``session_to_refresh``, but None for a browser without an access token: the route then checks its cookie."""
    if browser_requests.is_browser(request) and not has_credential(request):
        browser_requests.require_same_origin(request)
        return None
    return await session_to_refresh(request)


SessionToRefresh = Annotated[Caller | None, Depends(session_to_refresh_or_browser)]


@guard
async def metrics_reader(request: Request, _preferred: PreferredHeader = None, _bearer: BearerHeader = None) -> None:
    """Admins, and account tokens that an admin created for metrics; everyone if the settings allow it.

    The metrics name every repository, schedule and agent, so rights on individual repositories are not enough.
    """
    mode = SETTINGS.of(request.app).metrics
    if mode == "off":
        raise NotFound("metrics.off", "Metrics are off. Set HOLDFAST_METRICS to token or open to turn them on.")
    if mode == "token":
        require_admin(with_final_password(await _identified(request, for_metrics=True)))


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


def require_admin(caller: Caller) -> Caller:
    if caller.role is not Role.ADMIN:
        raise forbidden(Role.ADMIN)
    return caller


def forbidden(required: Role) -> Forbidden:
    return Forbidden("access.forbidden", f"This needs the role {required}.", required=str(required))
