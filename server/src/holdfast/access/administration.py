"""User and key administration for ``holdfast admin``, which can run alongside the service."""

from dataclasses import field

from pydantic import ValidationError
from sqlalchemy import select

from backup_engine.frozen import frozen
from holdfast.access import account_tokens, audit, users
from holdfast.access.account import remove_totp, set_password
from holdfast.access.login import locked_user
from holdfast.access.models import User
from holdfast.access.passwords import MIN_CHARACTERS, NewPassword, hash_password, is_acceptable, random_password
from holdfast.access.roles import RepositoryRole, Role
from holdfast.access.rotation import Rotation, rotate
from holdfast.access.usernames import Email, NewUsername, username_key
from holdfast.access.users import NewUser, user_not_found
from holdfast.access.vault import Vault
from holdfast.errors import Unprocessable
from holdfast.kit.schema import Schema
from holdfast.settings import Settings
from holdfast.storage.session import Database


@frozen
class PasswordGiven:
    """The user's login after the command. The password is included only if the command generated it."""

    user_id: int
    username: str
    generated_password: str | None = field(repr=False)


class _Wanted(Schema):
    username: NewUsername
    password: NewPassword
    role: Role
    email: Email | None
    all_repositories_role: RepositoryRole | None


def create_user(
    database: Database,
    *,
    username: str,
    password: str | None = None,
    role: str = "viewer",
    email: str | None = None,
    all_repositories_role: str | None = None,
) -> PasswordGiven:
    """Create a user. Without a password, generate one that must be changed at the first login. Raise Unprocessable."""
    wanted = _checked(
        username=username,
        password=random_password() if password is None else password,
        role=role,
        email=email,
        all_repositories_role=all_repositories_role,
    )
    new = NewUser(
        username=wanted.username,
        password_hash=hash_password(wanted.password),
        role=wanted.role,
        email=wanted.email,
        all_repositories_role=wanted.all_repositories_role,
        must_change_password=password is None,
    )
    with database.writing() as session:
        user = users.create(session, None, new)
        return PasswordGiven(user.id, user.username, wanted.password if password is None else None)


def reset_password(
    database: Database,
    settings: Settings,
    *,
    username: str,
    password: str | None = None,
    disable_totp: bool = False,
    enable: bool = False,
    end_tokens: bool = False,
) -> PasswordGiven:
    """Set a new password for a user and end their sessions.

    ``disable_totp`` lets a user who has lost their phone log in again. Raise NotFound, Unprocessable.
    """
    chosen = random_password() if password is None else password
    if not is_acceptable(chosen):
        raise Unprocessable("auth.password_refused", f"A password must have at least {MIN_CHARACTERS} characters.")
    password_hash = hash_password(chosen)
    with database.writing() as session:
        found = session.execute(select(User.id).filter_by(username_key=username_key(username))).scalar_one_or_none()
        user = locked_user(session, found) if found is not None else None
        if user is None:
            raise user_not_found(username)
        set_password(session, settings, user, password_hash, must_change=password is None)
        if disable_totp:
            remove_totp(user)
        if enable:
            user.disabled = False
        ended = account_tokens.end_all(session, user.id) if end_tokens else 0
        details = {
            "username": user.username,
            "totp_disabled": disable_totp,
            "enabled": enable,
            "tokens_ended": ended,
        }
        audit.record(
            session, actor=None, action="users.password_reset", object_type="user", object_id=user.id, details=details
        )
        return PasswordGiven(user.id, user.username, chosen if password is None else None)


def rotate_key(database: Database, settings: Settings, *, drop_old: bool = False) -> Rotation:
    """Rotate the key for stored secrets.

    With ``drop_old``, no key is added: secrets under old keys move to the active one, and the old keys are removed. If
    the keys come from HOLDFAST_SECRET_KEY, the operator adds and removes them, and the secrets move to the first one.
    """
    vault = Vault(settings)
    from_file = vault.key_file is not None
    return rotate(database, vault, add_key=from_file and not drop_old, drop_old=from_file and drop_old)


def _checked(**fields: str | None) -> _Wanted:
    try:
        return _Wanted.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_input=False, include_context=False)[0]
        message = f"{first['loc'][0]}: {first['msg']}"
    raise Unprocessable("users.refused", message)
