"""Tables for users, their credentials and rights, and the audit trail."""

from datetime import datetime
from typing import Any

from sqlalchemy import Boolean, ForeignKey, Index, String, UniqueConstraint, event, false
from sqlalchemy.engine import Connection
from sqlalchemy.orm import Mapped, Mapper, mapped_column

from holdfast.access.roles import Role, RoleText, role_constraint
from holdfast.access.scopes import TokenScope, has_scope
from holdfast.kit import clock
from holdfast.storage.base import NEVER_REUSED, Base
from holdfast.storage.types import Identifier, UtcDateTime

USERNAME_LENGTH = 64
ADDRESS_LENGTH = 64


class User(Base):
    __tablename__ = "users"
    __table_args__ = (
        role_constraint("role", *Role),
        role_constraint("all_repositories_role", Role.VIEWER, Role.OPERATOR),
        NEVER_REUSED,
    )

    id: Mapped[int] = mapped_column(Identifier, primary_key=True)
    username: Mapped[str] = mapped_column(String(USERNAME_LENGTH))
    # Case-folded: names that differ only in case are the same.
    username_key: Mapped[str] = mapped_column(String(USERNAME_LENGTH), unique=True)
    email: Mapped[str | None] = mapped_column(String(320))
    password_hash: Mapped[str]
    role: Mapped[Role] = mapped_column(RoleText, index=True)
    all_repositories_role: Mapped[Role | None] = mapped_column(RoleText)
    must_change_password: Mapped[bool] = mapped_column(Boolean, default=False, server_default=false())
    # True while the first admin still has the random password that was written to a file.
    has_initial_password: Mapped[bool] = mapped_column(Boolean, default=False, server_default=false())
    disabled: Mapped[bool] = mapped_column(Boolean, default=False, server_default=false())
    totp_enabled: Mapped[bool] = mapped_column(Boolean, default=False, server_default=false())
    totp_secret: Mapped[str | None]
    # Time step of the last accepted code. That code and older ones are no longer valid.
    totp_last_step: Mapped[int | None] = mapped_column(Identifier)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime, default=clock.now)
    updated_at: Mapped[datetime] = mapped_column(UtcDateTime, default=clock.now, onupdate=clock.now)
    last_login_at: Mapped[datetime | None]
    # Hash of the single-use link with which the user may choose a password.
    invitation_hash: Mapped[str | None] = mapped_column(String(64), unique=True, index=True)
    invitation_expires_at: Mapped[datetime | None]


class LoginSession(Base):
    """The session behind an access token. It ends when ``ended_at`` is set, or after a period of disuse."""

    __tablename__ = "login_sessions"
    __table_args__ = NEVER_REUSED

    id: Mapped[int] = mapped_column(Identifier, primary_key=True)
    # Part of access tokens, which are signed, so it is worthless without the signing key.
    public_id: Mapped[str] = mapped_column(String(64), unique=True)
    user_id: Mapped[int] = mapped_column(Identifier, ForeignKey("users.id", ondelete="CASCADE"), index=True)
    address: Mapped[str | None] = mapped_column(String(ADDRESS_LENGTH))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime, default=clock.now)
    last_used_at: Mapped[datetime] = mapped_column(UtcDateTime, default=clock.now)
    ended_at: Mapped[datetime | None]
    # Hashes of a browser's current cookie and of the previous one, which may be sent once more if a response was lost.
    refresh_hash: Mapped[str | None] = mapped_column(String(64), unique=True, index=True)
    earlier_refresh_hash: Mapped[str | None] = mapped_column(String(64), index=True)
    refreshed_at: Mapped[datetime | None]


class LoginChallenge(Base):
    """A login whose password was correct and whose code is still outstanding."""

    __tablename__ = "login_challenges"

    id: Mapped[int] = mapped_column(Identifier, primary_key=True)
    token_hash: Mapped[str] = mapped_column(String(64), unique=True)
    user_id: Mapped[int] = mapped_column(Identifier, ForeignKey("users.id", ondelete="CASCADE"), index=True)
    expires_at: Mapped[datetime] = mapped_column(UtcDateTime, index=True)


class AccountToken(Base):
    __tablename__ = "account_tokens"
    __table_args__ = (has_scope("scope"), NEVER_REUSED)

    id: Mapped[int] = mapped_column(Identifier, primary_key=True)
    user_id: Mapped[int] = mapped_column(Identifier, ForeignKey("users.id", ondelete="CASCADE"), index=True)
    name: Mapped[str] = mapped_column(String(100))
    token_hash: Mapped[str] = mapped_column(String(64), unique=True)
    prefix: Mapped[str] = mapped_column(String(16))
    scope: Mapped[str] = mapped_column(String(16), default=TokenScope.READ.value)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime, default=clock.now)
    expires_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]


class RepositoryRight(Base):
    """A user's right on one repository, limited by their global role."""

    __tablename__ = "repository_rights"
    __table_args__ = (role_constraint("role", Role.VIEWER, Role.OPERATOR),)

    user_id: Mapped[int] = mapped_column(Identifier, ForeignKey("users.id", ondelete="CASCADE"), primary_key=True)
    repository_id: Mapped[int] = mapped_column(
        Identifier, ForeignKey("repositories.id", ondelete="CASCADE"), primary_key=True, index=True
    )
    role: Mapped[Role] = mapped_column(RoleText)


class LoginFailure(Base):
    """Failed logins with one user name, known or not, from one address: at most five before the block."""

    __tablename__ = "login_failures"
    __table_args__ = (UniqueConstraint("username_key", "address"),)

    id: Mapped[int] = mapped_column(Identifier, primary_key=True)
    username_key: Mapped[str] = mapped_column(String(64))
    address: Mapped[str] = mapped_column(String(ADDRESS_LENGTH))
    failed_at: Mapped[list[str]]
    blocked_until: Mapped[datetime | None]
    updated_at: Mapped[datetime] = mapped_column(UtcDateTime, index=True)


class IdempotencyRecord(Base):
    __tablename__ = "idempotency_records"
    __table_args__ = (UniqueConstraint("user_id", "route", "key"),)

    id: Mapped[int] = mapped_column(Identifier, primary_key=True)
    user_id: Mapped[int] = mapped_column(Identifier, ForeignKey("users.id", ondelete="CASCADE"))
    route: Mapped[str] = mapped_column(String(200))
    key: Mapped[str] = mapped_column(String(200))
    request_hash: Mapped[str] = mapped_column(String(64))
    answer: Mapped[dict[str, Any] | None]
    created_at: Mapped[datetime] = mapped_column(UtcDateTime, index=True)


class AuditEntry(Base):
    """Who did what to which object, from where, and with what outcome. User names are copied: entries outlive users."""

    __tablename__ = "audit_entries"
    __table_args__ = (
        Index(None, "actor", "id"),
        Index(None, "action", "id"),
        NEVER_REUSED,
    )

    id: Mapped[int] = mapped_column(Identifier, primary_key=True)
    at: Mapped[datetime] = mapped_column(UtcDateTime, index=True)
    actor_user_id: Mapped[int | None] = mapped_column(Identifier)
    actor: Mapped[str | None] = mapped_column(String(USERNAME_LENGTH))
    action: Mapped[str] = mapped_column(String(64))
    object_type: Mapped[str | None] = mapped_column(String(64))
    object_id: Mapped[str | None] = mapped_column(String(200))
    outcome: Mapped[str] = mapped_column(String(64))
    address: Mapped[str | None] = mapped_column(String(ADDRESS_LENGTH))
    details: Mapped[dict[str, Any] | None]


class AuditIsAppendOnly(Exception):
    """Code tried to change or remove an audit entry."""


@event.listens_for(AuditEntry, "before_update")
@event.listens_for(AuditEntry, "before_delete")
def _refuse_to_rewrite(_mapper: Mapper[AuditEntry], _connection: Connection, entry: AuditEntry) -> None:
    raise AuditIsAppendOnly(f"audit entry {entry.id} may not be changed")
