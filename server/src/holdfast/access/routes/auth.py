"""/api/auth: login, sessions and the caller's own account."""

from functools import partial
from typing import Annotated

from fastapi import Depends, Form, Request, Response
from starlette.concurrency import run_in_threadpool

from holdfast.access import audit, browser_requests, browser_sessions, invitations, sessions, throttle
from holdfast.access.account import Account
from holdfast.access.caller import (
    LoginOnly,
    LoginOnlyEvenIfPasswordMustChange,
    SessionToRefresh,
    SignedInEvenIfPasswordMustChange,
    address_of,
    public,
)
from holdfast.access.fair_queue import ClientKey
from holdfast.access.invitations import Invited
from holdfast.access.login import CodeNeeded, LoggedIn, Login
from holdfast.access.passwords import AnyPassword, Hashing, client_key
from holdfast.access.schemas import (
    CodeLogin,
    InvitationAccepted,
    InvitationAnswer,
    InvitationToken,
    LoginAnswer,
    Me,
    PasswordChange,
    TotpDisable,
    TotpEnable,
    TotpSecret,
    TotpState,
)
from holdfast.access.usernames import AnyUsername
from holdfast.access.users import TheAccounts
from holdfast.access.vault import TheVault
from holdfast.api.answers import documented
from holdfast.api.dependencies import Reading, TheDatabase, TheSettings, Writing
from holdfast.api.router import router
from holdfast.kit import clock, request_priority
from holdfast.storage.session import Database

auth = router("/api/auth", "Login")


async def _login(database: TheDatabase, settings: TheSettings, vault: TheVault) -> Login:
    return Login(database, settings, vault)


TheLogin = Annotated[Login, Depends(_login)]


@auth.post("/login", summary="Log in", dependencies=[Depends(public)], responses=documented(429))
async def log_in(
    request: Request,
    response: Response,
    username: Annotated[AnyUsername, Form()],
    password: Annotated[AnyPassword, Form(json_schema_extra={"format": "password"})],
    login: TheLogin,
    hashing: Hashing,
) -> LoginAnswer:
    address = address_of(request)
    attempts = throttle.password_attempts(username, address)
    client = ClientKey(attempts.address, attempts.username_key)
    result = await hashing.run(client, login.with_password, username, password, address)
    await run_in_threadpool(_begin_in_browser, request, response, login, result)
    return LoginAnswer.of(result)


@auth.post(
    "/login/totp",
    summary="Complete a login with a code",
    dependencies=[Depends(public)],
    responses=documented(409, 429),
)
def log_in_with_code(request: Request, response: Response, body: CodeLogin, login: TheLogin) -> LoginAnswer:
    result = login.with_code(body.login_challenge_token, body.code, address_of(request))
    _begin_in_browser(request, response, login, result)
    return LoginAnswer.of(result)


@auth.post("/invitation", summary="Get an invitation", dependencies=[Depends(public)], responses=documented(404))
def read_invitation(body: InvitationToken, session: Reading) -> InvitationAnswer:
    found = invitations.find(session, body.token)
    return InvitationAnswer(username=found.username, expires_at=found.expires_at)


@auth.post(
    "/invitation/accept",
    summary="Accept an invitation and choose a password",
    dependencies=[Depends(public)],
    responses=documented(404),
)
async def accept_invitation(
    request: Request, body: InvitationAccepted, database: TheDatabase, settings: TheSettings, hashing: Hashing
) -> InvitationAnswer:
    """An invitation works once. Log in with the new password afterwards; a second factor is kept."""
    invited = await run_in_threadpool(_invited, database, body.token)  # before spending any work on the password
    client = ClientKey(address_of(request) or "", invited.username)
    found = await hashing.run(client, invitations.accept, database, settings, body.token, body.new_password)
    return InvitationAnswer(username=found.username, expires_at=found.expires_at)


def _invited(database: Database, token: str) -> Invited:
    with database.reading() as session:
        return invitations.find(session, token)


def _begin_in_browser(request: Request, response: Response, login: Login, result: LoggedIn | CodeNeeded) -> None:
    """Set a cookie that refreshes the session if the request comes from the web UI, as its header shows."""
    if isinstance(result, CodeNeeded) or not browser_requests.is_browser(request):
        return
    browser_requests.require_same_origin(request)
    with login.database.writing() as session:
        cookie = browser_sessions.begin(session, result.session)
    browser_requests.set_cookie(request, response, cookie, login.settings)


@auth.post("/refresh", summary="Refresh the access token of an active session")
def refresh(request: Request, response: Response, caller: SessionToRefresh, login: TheLogin) -> LoginAnswer:
    """An expired access token is also accepted while its session is active. The service's own pages may use their
    cookie instead.
    """
    if caller is not None:
        with login.database.reading() as session:
            return LoginAnswer.of(login.refreshed(session, caller))
    cookie = browser_requests.read_cookie(request)
    if cookie is None:
        raise browser_sessions.session_ended()
    with login.database.writing() as session:
        found = browser_sessions.refresh(session, login.settings, login.vault, cookie, address_of(request))
    if found is None:
        raise browser_sessions.session_ended()
    if found.cookie is not None:
        browser_requests.set_cookie(request, response, found.cookie, login.settings)
    return LoginAnswer.of(login.token(found.public_id, found.must_change_password))


@auth.get("/me", summary="Who am I")
async def me(caller: SignedInEvenIfPasswordMustChange, accounts: TheAccounts) -> Me:
    with request_priority.answering():
        record = await accounts.of(caller.user_id)
        return Me.of_caller(caller, record.user, record.rights)


@auth.post("/logout", summary="End this session", status_code=204)
def log_out(request: Request, response: Response, caller: LoginOnlyEvenIfPasswordMustChange, session: Writing) -> None:
    assert caller.session_id is not None
    if browser_requests.is_browser(request):
        browser_requests.clear_cookie(request, response)
    sessions.end(session, caller.session_id, clock.now())
    audit.record(session, actor=caller, action="auth.logout")


@auth.post("/change-password", summary="Change your password", responses=documented(429))
async def change_password(
    body: PasswordChange, caller: LoginOnlyEvenIfPasswordMustChange, login: TheLogin, hashing: Hashing
) -> LoginAnswer:
    """Ends all other sessions of the user and, on request, revokes their account tokens."""
    change = partial(Account(login, caller).change_password, end_tokens=body.end_tokens)
    return LoginAnswer.of(await hashing.run(client_key(caller), change, body.current_password, body.new_password))


@auth.post("/totp/setup", summary="Set up login codes", responses=documented(409))
def set_up_totp(caller: LoginOnly, session: Writing, login: TheLogin) -> TotpSecret:
    """Logins do not change until a code has been confirmed with /api/auth/totp/enable."""
    enrolment = Account(login, caller).set_up_totp(session)
    return TotpSecret(secret=enrolment.secret, otpauth_url=enrolment.otpauth_url)


@auth.post("/totp/enable", summary="Switch codes on", responses=documented(409))
def enable_totp(body: TotpEnable, caller: LoginOnly, session: Writing, login: TheLogin) -> TotpState:
    Account(login, caller).enable_totp(session, body.code)
    return TotpState(totp_enabled=True)


@auth.post("/totp/disable", summary="Switch codes off", responses=documented(409, 429))
async def disable_totp(body: TotpDisable, caller: LoginOnly, login: TheLogin, hashing: Hashing) -> TotpState:
    await hashing.run(client_key(caller), Account(login, caller).disable_totp, body.password, body.code)
    return TotpState(totp_enabled=False)
