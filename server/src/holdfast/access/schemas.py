"""Shapes of the access routes."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from holdfast.access import acts
from holdfast.access.caller import Caller
from holdfast.access.login import CodeNeeded, LoggedIn
from holdfast.access.models import AccountToken, AuditEntry, RepositoryRight, User
from holdfast.access.passwords import AnyPassword, NewPassword
from holdfast.access.rights import effective_role
from holdfast.access.roles import RepositoryRole, Role
from holdfast.access.scopes import TokenScope
from holdfast.access.usernames import Email, NewUsername
from holdfast.kit import clock
from holdfast.kit.fields import Moment, PlainText, Timestamp
from holdfast.kit.schema import Closed, Schema

Code = Annotated[str, PlainText(6, 6), Field(pattern=r"^[0-9]{6}$", description="Current six-digit code.")]


class LoginAnswer(Schema):
    access_token: str | None = Field(description="Null while a code is still needed.")
    token_type: Literal["bearer"] = "bearer"  # noqa: S105 - the scheme
    expires_in: int = Field(
        description="Seconds until the access token expires, or the challenge while a code is needed."
    )
    must_change_password: bool
    totp_required: bool
    login_challenge_token: str | None = Field(description="For /api/auth/login/totp, when a code is needed.")

    @classmethod
    def of(cls, result: LoggedIn | CodeNeeded) -> "LoginAnswer":
        if isinstance(result, CodeNeeded):
            return cls(
                access_token=None,
                expires_in=result.expires_in,
                must_change_password=False,
                totp_required=True,
                login_challenge_token=result.challenge_token,
            )
        return cls(
            access_token=result.access_token,
            expires_in=result.expires_in,
            must_change_password=result.must_change_password,
            totp_required=False,
            login_challenge_token=None,
        )


class CodeLogin(Schema):
    login_challenge_token: Annotated[str, PlainText(1, 200)]
    code: Code


class PasswordChange(Schema):
    current_password: AnyPassword
    new_password: NewPassword
    end_tokens: bool = Field(False, description="Also revoke all account tokens of the user.")


class TotpSecret(Schema):
    secret: str = Field(description="Base32; shown once.")
    otpauth_url: str = Field(description="Address for the QR code of an authenticator app.")


class TotpEnable(Schema):
    code: Code


class TotpDisable(Schema):
    password: AnyPassword
    code: Code


class TotpState(Schema):
    totp_enabled: bool


class Right(Schema):
    repository_id: int
    role: RepositoryRole


class UserAnswer(Schema):
    id: int
    username: str
    email: str | None
    role: Role
    all_repositories_role: RepositoryRole | None
    must_change_password: bool
    disabled: bool
    totp_enabled: bool
    repositories: list[Right] = Field(description="Individual rights; limited by the global role.")
    created_at: Timestamp
    updated_at: Timestamp
    last_login_at: Timestamp | None
    invited_until: Timestamp | None = Field(description="Until when an open invitation is valid; null without one.")

    @classmethod
    def of(cls, user: User, rights: list[RepositoryRight]) -> "UserAnswer":
        return cls(**_fields(user, rights))


class Me(UserAnswer):
    credential: Literal["login", "account_token"] = Field(description="Kind of credential of this request.")
    capabilities: list[str] = Field(description="Acts that are about no repository and that you are allowed.")

    @classmethod
    def of_caller(cls, caller: Caller, user: User, rights: list[RepositoryRight]) -> "Me":
        return cls(
            **_fields(user, rights),
            credential="login" if caller.session_id is not None else "account_token",
            capabilities=acts.capabilities(caller),
        )


def _fields(user: User, rights: list[RepositoryRight]) -> dict[str, Any]:
    return {
        "id": user.id,
        "username": user.username,
        "email": user.email,
        "role": user.role,
        "all_repositories_role": user.all_repositories_role,
        "must_change_password": user.must_change_password,
        "disabled": user.disabled,
        "totp_enabled": user.totp_enabled,
        "repositories": [Right(repository_id=right.repository_id, role=right.role) for right in rights],
        "created_at": user.created_at,
        "updated_at": user.updated_at,
        "last_login_at": user.last_login_at,
        "invited_until": _still_to_come(user.invitation_expires_at),
    }


def _still_to_come(moment: datetime | None) -> datetime | None:
    return moment if moment is not None and moment > clock.now() else None


class Users(Schema):
    users: list[UserAnswer]


class UserCreate(Schema):
    username: NewUsername
    password: NewPassword | None = Field(None, description="Null: the user gets in by an invitation only.")
    email: Email | None = None
    role: Role
    all_repositories_role: RepositoryRole | None = None
    must_change_password: bool = True


class UserUpdate(Schema):
    """Only the fields that are sent change."""

    role: Role | None = None
    email: Email | None = Field(None, description="Null removes it.")
    password: NewPassword | None = None
    disabled: bool | None = None
    all_repositories_role: RepositoryRole | None = Field(None, description="Null removes it.")
    must_change_password: bool | None = Field(
        None, description="When a password is sent (default: true; false for your own)."
    )
    end_tokens: bool = Field(
        False, description="Also revoke all account tokens of the user. Disabling a user always does."
    )


class InvitationCreate(Closed):
    expires_in_hours: int = Field(72, ge=1, le=720, description="Hours for which the invitation is valid.")


class InvitationMade(Schema):
    token: str = Field(description="Shown once.")
    path: str = Field(description="Page of this service on which the user chooses a password.")
    expires_at: Timestamp


class InvitationToken(Closed):
    token: Annotated[str, PlainText(1, 200)]


class InvitationAccepted(InvitationToken):
    new_password: NewPassword


class InvitationAnswer(Schema):
    username: str
    expires_at: Timestamp


class RightChange(Schema):
    role: RepositoryRole


class UserAccess(Schema):
    user_id: int
    username: str
    role: Role | None = Field(description="What the user may do with the repository; null if they may not see it.")
    reason: Literal["admin", "all_repositories", "repository", "disabled", "none"] = Field(
        description="Where the role comes from: the global role `admin`, the right on all repositories, or the right "
        "on this repository; `disabled` for a user who cannot log in, `none` for one without a right."
    )
    global_role: Role = Field(description="Highest role of the user; it limits the rights below.")
    all_repositories_role: RepositoryRole | None
    repository_role: RepositoryRole | None = Field(description="The user's own right on this repository.")

    @classmethod
    def of(cls, user: User, given: Role | None) -> "UserAccess":
        role = None if user.disabled else effective_role(user.role, user.all_repositories_role, given)
        return cls(
            user_id=user.id,
            username=user.username,
            role=role,
            reason=_reason(user, given),
            global_role=user.role,
            all_repositories_role=user.all_repositories_role,
            repository_role=given,
        )


def _reason(user: User, given: Role | None) -> Literal["admin", "all_repositories", "repository", "disabled", "none"]:
    if user.disabled:
        return "disabled"
    if user.role is Role.ADMIN:
        return "admin"
    everywhere = user.all_repositories_role
    if given is not None and (everywhere is None or given > everywhere):
        return "repository"
    return "none" if everywhere is None else "all_repositories"


class AccessPage(Schema):
    users: list[UserAccess]
    next_cursor: str | None


class TokenCreate(Schema):
    name: Annotated[str, PlainText(1, 100)]
    scope: TokenScope = Field(
        TokenScope.READ,
        description="What the token may change: nothing (`read`), as an operator (`operate`) or as an admin "
        "(`admin`), and never more than its user. Jobs, users and new credentials always need a login.",
    )
    expires_in_days: int | None = Field(365, ge=1, le=3650, description="Days until the token expires; null for never.")


class TokenAnswer(Schema):
    id: int
    name: str
    prefix: str = Field(description="The beginning of the token, to identify it.")
    scope: TokenScope
    created_at: Timestamp
    expires_at: Timestamp | None = Field(description="Null for a token that does not expire.")
    last_used_at: Timestamp | None = Field(description="To the minute.")

    @classmethod
    def of(cls, row: AccountToken) -> "TokenAnswer":
        return TokenAnswer.from_row(row, scope=TokenScope(row.scope))


class CreatedToken(TokenAnswer):
    token: str = Field(description="Shown this once.")


class Tokens(Schema):
    tokens: list[TokenAnswer]


class AuditFilter(Closed):
    """Which entries of the audit trail are wanted; a filter that is left out admits all."""

    since: Moment | None = Field(None, description="Not before this time.")
    until: Moment | None = Field(None, description="Before this time.")
    actor: Annotated[str, PlainText(1, 64)] | None = Field(None, description="User name.")
    action: Annotated[str, PlainText(1, 64)] | None = Field(None, description="For example auth.login.")
    object_type: Annotated[str, PlainText(1, 64)] | None = Field(
        None, description="Kind of object, for example repository."
    )
    object_id: Annotated[str, PlainText(1, 200)] | None = Field(None, description="Id of the object.")
    outcome: Annotated[str, PlainText(1, 64)] | None = Field(None, description="For example ok or refused.")


class AuditItem(Schema):
    id: int
    at: Timestamp
    actor: str | None = Field(description="User name; null for unknown users and for the command line.")
    actor_user_id: int | None
    action: str
    object_type: str | None
    object_id: str | None
    outcome: str = Field(description="ok or refused.")
    address: str | None
    details: dict[str, Any]

    @classmethod
    def of(cls, entry: AuditEntry) -> "AuditItem":
        return cls.from_row(entry, details=entry.details or {})


class AuditPage(Schema):
    entries: list[AuditItem]
    next_cursor: str | None
