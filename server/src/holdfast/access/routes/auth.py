"""/api/auth: login, sessions and the own account."""

from typing import Annotated

from fastapi import Depends, Form, Request

from holdfast.access import audit, sessions
from holdfast.access.account import Account
from holdfast.access.caller import (
    LoginOnly,
    LoginOnlyEvenIfPasswordMustChange,
    SessionToRefresh,
    SignedInEvenIfPasswordMustChange,
    address_of,
    public,
)
from holdfast.access.login import Login
from holdfast.access.passwords import AnyPassword, Hashing
from holdfast.access.schemas import (
    CodeLogin,
    LoginAnswer,
    Me,
    PasswordChange,
    TotpDisable,
    TotpEnable,
    TotpSecret,
    TotpState,
)
from holdfast.access.usernames import AnyUsername
from holdfast.access.users import rights_by_user, user_of
from holdfast.access.vault import TheVault
from holdfast.api.answers import documented
from holdfast.api.dependencies import Reading, TheDatabase, TheSettings, Writing
from holdfast.api.router import router
from holdfast.kit import clock

auth = router("/api/auth", "Login")


def _login(database: TheDatabase, settings: TheSettings, vault: TheVault) -> Login:
    return Login(database, settings, vault)


TheLogin = Annotated[Login, Depends(_login)]


@auth.post("/login", summary="Log in", dependencies=[Depends(public)], responses=documented(429))
async def log_in(
    request: Request,
    username: Annotated[AnyUsername, Form()],
    password: Annotated[AnyPassword, Form(json_schema_extra={"format": "password"})],
    login: TheLogin,
    hashing: Hashing,
) -> LoginAnswer:
    return LoginAnswer.of(await hashing.run(login.with_password, username, password, address_of(request)))


@auth.post(
    "/login/totp", summary="Finish a login with a code", dependencies=[Depends(public)], responses=documented(409, 429)
)
def log_in_with_code(request: Request, body: CodeLogin, login: TheLogin) -> LoginAnswer:
    return LoginAnswer.of(login.with_code(body.login_challenge_token, body.code, address_of(request)))


@auth.post("/refresh", summary="Get a new access token for a session that lives")
def refresh(caller: SessionToRefresh, session: Reading, login: TheLogin) -> LoginAnswer:
    """Takes an access token that has expired, too, as long as its session lives."""
    return LoginAnswer.of(login.refreshed(session, caller))


@auth.get("/me", summary="Who am I")
def me(caller: SignedInEvenIfPasswordMustChange, session: Reading) -> Me:
    rights = rights_by_user(session, caller.user_id).get(caller.user_id, [])
    return Me.of_caller(caller, user_of(session, caller.user_id), rights)


@auth.post("/logout", summary="End this session", status_code=204)
def log_out(caller: LoginOnlyEvenIfPasswordMustChange, session: Writing) -> None:
    assert caller.session_id is not None
    sessions.end(session, caller.session_id, clock.now())
    audit.record(session, actor=caller, action="auth.logout")


@auth.post("/change-password", summary="Change the own password", responses=documented(429))
async def change_password(
    body: PasswordChange, caller: LoginOnlyEvenIfPasswordMustChange, login: TheLogin, hashing: Hashing
) -> LoginAnswer:
    """Ends all other sessions of the user."""
    account = Account(login, caller)
    return LoginAnswer.of(await hashing.run(account.change_password, body.current_password, body.new_password))


@auth.post("/totp/setup", summary="Prepare codes for logins", responses=documented(409))
def set_up_totp(caller: LoginOnly, session: Writing, login: TheLogin) -> TotpSecret:
    """Nothing changes for logins until a code has been shown to /api/auth/totp/enable."""
    enrolment = Account(login, caller).set_up_totp(session)
    return TotpSecret(secret=enrolment.secret, otpauth_url=enrolment.otpauth_url)


@auth.post("/totp/enable", summary="Switch codes on", responses=documented(409))
def enable_totp(body: TotpEnable, caller: LoginOnly, session: Writing, login: TheLogin) -> TotpState:
    Account(login, caller).enable_totp(session, body.code)
    return TotpState(totp_enabled=True)


@auth.post("/totp/disable", summary="Switch codes off", responses=documented(409, 429))
async def disable_totp(body: TotpDisable, caller: LoginOnly, login: TheLogin, hashing: Hashing) -> TotpState:
    await hashing.run(Account(login, caller).disable_totp, body.password, body.code)
    return TotpState(totp_enabled=False)
