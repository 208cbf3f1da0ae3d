"""The first start with an empty store: creates one admin, without a default password."""

from dataclasses import field
from pathlib import Path

from sqlalchemy import exists, select, text
from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from holdfast.access import audit, initial_password
from holdfast.access.models import User
from holdfast.access.passwords import MAX_BYTES, MIN_CHARACTERS, hash_password, is_storable, random_password
from holdfast.access.roles import Role
from holdfast.errors import Unprocessable
from holdfast.settings import Settings
from holdfast.storage.session import Database

USERNAME = "admin"
# An arbitrary number that all processes share.
FIRST_ADMIN_LOCK = 4_863_251_977


@frozen
class FirstAdmin:
    username: str
    password: str | None = field(repr=False)
    password_file: Path | None
    password_is_short: bool = False
    """The owner of the machine may choose a short password and gets a warning; users may not."""

    def announcement(self, *, to_terminal: bool) -> str:
        """The text to print. A random password is shown only on a terminal, because other output ends up in logs."""
        if self.password_file is None:
            note = " It is short; choose a longer one." if self.password_is_short else ""
            return f"User {self.username}, password as in HOLDFAST_ADMIN_PASSWORD.{note}"
        if to_terminal:
            return f"User {self.username}, password (shown once; choose your own at the first login): {self.password}"
        return f"User {self.username}, password in {self.password_file} (choose your own at the first login)"


def ensure_first_admin(database: Database, settings: Settings) -> FirstAdmin | None:
    """If the store is empty, create the first admin and return how to log in; return None if users exist.

    Raise Unprocessable if HOLDFAST_ADMIN_PASSWORD is not a valid password.
    """
    with database.reading() as session:
        if not _is_empty(session):
            _remove_stale_file(session, settings)
            return None
    chosen = chosen_password(settings)
    password = chosen or random_password()
    password_hash = hash_password(password)
    with database.writing() as session:
        _one_process_at_a_time(session)
        if not _is_empty(session):
            return None
        # Write the file before the commit: a crash in between leaves an empty store and a file that the next start
        # replaces. In the opposite order, a crash could leave an admin whose password nobody knows.
        password_file = initial_password.write(settings, password) if chosen is None else None
        _create(session, password_hash, has_initial_password=chosen is None)
    return FirstAdmin(
        USERNAME,
        password if chosen is None else None,
        password_file,
        password_is_short=len(password) < MIN_CHARACTERS,
    )


def chosen_password(settings: Settings) -> str | None:
    """The password from HOLDFAST_ADMIN_PASSWORD, if set. Raise Unprocessable if it is not valid."""
    if settings.admin_password is None or not settings.admin_password.get_secret_value():
        return None
    password = settings.admin_password.get_secret_value()
    if not is_storable(password):
        raise Unprocessable("auth.password_refused", f"HOLDFAST_ADMIN_PASSWORD must have at most {MAX_BYTES} bytes.")
    return password


def _is_empty(session: Session) -> bool:
    return not session.execute(select(exists().select_from(User))).scalar_one()


def _one_process_at_a_time(session: Session) -> None:
    if session.get_bind().dialect.name == "postgresql":
        session.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": FIRST_ADMIN_LOCK})


def _create(session: Session, password_hash: str, *, has_initial_password: bool) -> None:
    user = User(
        username=USERNAME,
        username_key=USERNAME,
        password_hash=password_hash,
        role=Role.ADMIN,
        must_change_password=has_initial_password,
        has_initial_password=has_initial_password,
    )
    session.add(user)
    session.flush()
    audit.record(session, actor=None, action="auth.first_admin_created", object_type="user", object_id=user.id)


def _remove_stale_file(session: Session, settings: Settings) -> None:
    """Remove the password file that a crash right after a password change may have left behind."""
    if not session.execute(select(exists().where(User.has_initial_password))).scalar_one():
        initial_password.remove(settings)
