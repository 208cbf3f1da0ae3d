"""Actions of a signed-in user on their own account."""

from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from holdfast.access import account_tokens, audit, initial_password, sessions, throttle, totp
from holdfast.access.caller import Caller
from holdfast.access.login import LoggedIn, Login, locked_user
from holdfast.access.models import LoginSession, User
from holdfast.access.passwords import hash_password, is_password
from holdfast.errors import Conflict, Forbidden, Unauthenticated, Unprocessable
from holdfast.kit import clock
from holdfast.settings import Settings


@frozen
class Enrolment:
    secret: str
    otpauth_url: str


@frozen
class Account:
    login: Login
    caller: Caller

    def change_password(self, current: str, new: str, *, end_tokens: bool = False) -> LoggedIn:
        """Change the password and end all other sessions; with ``end_tokens``, also revoke all account tokens.

        Raise Forbidden, LoginThrottled, Unprocessable.
        """
        if current == new:
            raise Unprocessable("auth.password_unchanged", "The new password must differ from the current one.")
        known_hash = self._check_password(current)
        new_hash = hash_password(new)
        with self.login.database.writing() as session:
            user = self._own_row(session)
            if user.password_hash != known_hash:
                raise _wrong_password()
            set_password(
                session, self.login.settings, user, new_hash, must_change=False, except_session=self.caller.session_id
            )
            ended = account_tokens.end_all(session, user.id) if end_tokens else 0
            audit.record(session, actor=self.caller, action="auth.password_changed", details={"tokens_ended": ended})
            own = session.get_one(LoginSession, self.caller.session_id)
            return self.login.token(own.public_id, user.must_change_password)

    def set_up_totp(self, session: Session) -> Enrolment:
        """Create a secret. Logins require codes only after ``enable_totp`` has confirmed one."""
        user = self._own_row(session)
        if user.totp_enabled:
            raise Conflict("auth.totp_already_enabled", "Codes are already enabled; disable them first.")
        secret = totp.new_secret()
        user.totp_secret = self.login.vault.encrypt(secret, totp.context(user.id))
        user.totp_last_step = None
        return Enrolment(secret, totp.otpauth_url(secret, user.username))

    def enable_totp(self, session: Session, code: str) -> None:
        user = self._own_row(session)
        if user.totp_enabled or user.totp_secret is None:
            raise Conflict("auth.totp_not_prepared", "Request a secret first.")
        self._use_code(session, user, code)
        user.totp_enabled = True
        audit.record(session, actor=self.caller, action="auth.totp_enabled")

    def disable_totp(self, password: str, code: str) -> None:
        """Turn off login codes, given the password and a code. Raise Forbidden, LoginThrottled, Conflict."""
        self._require_codes_on()
        self._check_password(password)
        attempts = throttle.code_attempts(self.caller.username)
        self.login.count(attempts, None)
        with self.login.database.writing() as session:
            user = self._own_row(session)
            self._use_code(session, user, code)
            remove_totp(user)
            throttle.forget(session, attempts)
            audit.record(session, actor=self.caller, action="auth.totp_disabled")

    def _check_password(self, password: str) -> str:
        """Return the stored hash if the password matches it.

        Attempts are counted, so that a stolen token cannot be used to guess the password.
        """
        attempts = throttle.password_attempts(self.caller.username, self.caller.address)
        with throttle.turn(attempts):
            with self.login.database.reading() as session:
                user = session.get(User, self.caller.user_id)
            self.login.count(attempts, user)
            if user is None or not is_password(password, user.password_hash):
                raise _wrong_password()
            with self.login.database.writing() as session:
                throttle.forget(session, attempts)
            return user.password_hash

    def _require_codes_on(self) -> None:
        with self.login.database.reading() as session:
            user = session.get(User, self.caller.user_id)
        if user is None or not user.totp_enabled:
            raise Conflict("auth.totp_not_enabled", "Login codes are off.")

    def _own_row(self, session: Session) -> User:
        user = locked_user(session, self.caller.user_id)
        if user is None or user.disabled:
            raise Unauthenticated("auth.session_ended", "The session has ended; log in again.")
        return user

    def _use_code(self, session: Session, user: User, code: str) -> None:
        step = totp.matching_step(self.login.vault, user, code, clock.now())
        if step is None or not totp.use_step(session, user.id, step):
            raise Forbidden("auth.bad_code", "The code is wrong or has already been used.")
        session.refresh(user)


def set_password(
    session: Session,
    settings: Settings,
    user: User,
    password_hash: str,
    *,
    must_change: bool,
    except_session: int | None = None,
) -> None:
    """Replace a user's password, end their sessions, and invalidate any open invitation."""
    user.password_hash = password_hash
    user.must_change_password = must_change
    user.invitation_hash = user.invitation_expires_at = None
    if user.has_initial_password:
        user.has_initial_password = False
        initial_password.remove_after_commit(session, settings)
    sessions.end_all(session, user.id, clock.now(), except_session=except_session)


def remove_totp(user: User) -> None:
    user.totp_enabled = False
    user.totp_secret = None


def _wrong_password() -> Forbidden:
    """403 rather than 401: the credential of the request itself is valid."""
    return Forbidden("auth.password_wrong", "The current password is wrong.")
