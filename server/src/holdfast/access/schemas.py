"""Request and response schemas of the access routes."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from holdfast.access import permissions
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
    access_token: str | None = Field(description="Null while a code is still required.")
    token_type: Literal["bearer"] = "bearer"  # noqa: S105 - the scheme
    expires_in: int = Field(
        description="Seconds until the access token expires, or until the challenge expires if a code is required."
    )
    must_change_password: bool
    totp_required: bool
    login_challenge_token: str | None = Field(description="For /api/auth/login/totp; set when a code is required.")

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
    otpauth_url: str = Field(description="URI to show as a QR code for an authenticator app.")


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
    repositories: list[Right] = Field(description="Rights per repository, limited by the global role.")
    created_at: Timestamp
    updated_at: Timestamp
    last_login_at: Timestamp | None
    invited_until: Timestamp | None = Field(description="When the open invitation expires; null if there is none.")

    @classmethod
    def of(cls, user: User, rights: list[RepositoryRight]) -> "UserAnswer":
        return cls(**_fields(user, rights))


class Me(UserAnswer):
    credential: Literal["login", "account_token"] = Field(description="Type of credential used by this request.")
    capabilities: list[str] = Field(description="Actions not tied to a repository that you are allowed to perform.")

    @classmethod
    def of_caller(cls, caller: Caller, user: User, rights: list[RepositoryRight]) -> "Me":
        return cls(
            **_fields(user, rights),
            credential="login" if caller.session_id is not None else "account_token",
            capabilities=permissions.capabilities(caller),
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
    password: NewPassword | None = Field(
        None, description="Null: the user can only log in after accepting an invitation."
    )
    email: Email | None = None
    role: Role
    all_repositories_role: RepositoryRole | None = None
    must_change_password: bool = True


class UserUpdate(Schema):
    """Only fields that are sent are changed."""

    role: Role | None = None
    email: Email | None = Field(None, description="Null removes it.")
    password: NewPassword | None = None
    disabled: bool | None = None
    all_repositories_role: RepositoryRole | None = Field(None, description="Null removes it.")
    must_change_password: bool | None = Field(
        None,
        description="Require a password change at the next login, if a password is sent (default: true; false for your "
        "own).",
    )
    end_tokens: bool = Field(
        False, description="Also revoke all account tokens of the user. Disabling a user always does."
    )


class InvitationCreate(Closed):
    expires_in_hours: int = Field(72, ge=1, le=720, description="Hours until the invitation expires.")


class InvitationMade(Schema):
    token: str = Field(description="Shown once.")
    path: str = Field(description="Page of this service where the user chooses a password.")
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
    role: Role | None = Field(description="The user's role on the repository; null if they cannot see it.")
    reason: Literal["admin", "all_repositories", "repository", "disabled", "none"] = Field(
        description="Source of the role: the global role `admin`, the right on all repositories, or the right on this "
        "repository; `disabled` if the user cannot log in, `none` without any right."
    )
    global_role: Role = Field(description="The user's global role, which limits the rights below.")
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
        description="What the token may change: nothing (`read`), what operators may (`operate`) or what admins may "
        "(`admin`), but never more than its user. Jobs, users and new credentials always require a login.",
    )
    expires_in_days: int | None = Field(365, ge=1, le=3650, description="Days until the token expires; null for never.")


class TokenAnswer(Schema):
    id: int
    name: str
    prefix: str = Field(description="First characters of the token, to identify it.")
    scope: TokenScope
    created_at: Timestamp
    expires_at: Timestamp | None = Field(description="Null if the token does not expire.")
    last_used_at: Timestamp | None = Field(description="To the minute.")

    @classmethod
    def of(cls, row: AccountToken) -> "TokenAnswer":
        return TokenAnswer.from_row(row, scope=TokenScope(row.scope))


class CreatedToken(TokenAnswer):
    token: str = Field(description="Shown this once.")


class Tokens(Schema):
    tokens: list[TokenAnswer]


class AuditFilter(Closed):
    """Filters for audit entries; an omitted filter matches everything."""

    since: Moment | None = Field(None, description="Only entries at or after this time.")
    until: Moment | None = Field(None, description="Before this time.")
    actor: Annotated[str, PlainText(1, 64)] | None = Field(None, description="User name.")
    action: Annotated[str, PlainText(1, 64)] | None = Field(None, description="For example auth.login.")
    object_type: Annotated[str, PlainText(1, 64)] | None = Field(
        None, description="Type of object, for example repository."
    )
    object_id: Annotated[str, PlainText(1, 200)] | None = Field(None, description="Id of the object.")
    outcome: Annotated[str, PlainText(1, 64)] | None = Field(None, description="For example ok or refused.")


class AuditItem(Schema):
    id: int
    at: Timestamp
    actor: str | None = Field(description="User name; null for unknown users and the command line.")
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
