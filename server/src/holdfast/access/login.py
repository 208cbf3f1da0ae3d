"""Login with a password and, if enabled, a code; refresh; logout.

Passwords are never hashed inside a write transaction. Decisions made outside it are checked again inside, under the
user's row lock, so that a concurrent password change or disabling of the user takes precedence.
"""

from datetime import datetime, timedelta

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from holdfast.access import access_tokens, audit, sessions, throttle, totp
from holdfast.access.caller import Caller
from holdfast.access.models import LoginChallenge, LoginSession, User
from holdfast.access.passwords import is_password
from holdfast.access.usernames import username_key
from holdfast.access.vault import Vault
from holdfast.errors import TooManyRequests, Unauthenticated
from holdfast.kit import clock
from holdfast.kit.tokens import new_token, token_hash
from holdfast.settings import Settings
from holdfast.storage.session import Database

CHALLENGE_LIFE = timedelta(minutes=10)
CHALLENGE_PREFIX = "bk_login_"


@frozen
class LoggedIn:
    access_token: str
    expires_in: int
    must_change_password: bool
    session: str
    """The public id of the login session."""


@frozen
class CodeNeeded:
    challenge_token: str
    expires_in: int


class LoginRefused(Unauthenticated):
    """Carries the user for the audit trail, if they exist. For an unknown user the typed text is not recorded, because
    it may be a password.
    """

    def __init__(self, key: str, message: str, user: User | None) -> None:
        super().__init__(key, message)
        self.attempted_user_id = user.id if user else None
        self.attempted_username = user.username if user else None


class LoginThrottled(TooManyRequests):
    def __init__(self, refusal: TooManyRequests, user: User | None) -> None:
        super().__init__(refusal.key, refusal.message, retry_after=refusal.retry_after)
        self.attempted_user_id = user.id if user else None
        self.attempted_username = user.username if user else None


@frozen
class Login:
    database: Database
    settings: Settings
    vault: Vault

    def with_password(self, username: str, password: str, address: str | None) -> LoggedIn | CodeNeeded:
        """Given the right password, return an access token, or a challenge if a code is also required.

        Raise LoginRefused (identical for an unknown user, a disabled one and a wrong password) or LoginThrottled.
        """
        attempts = throttle.password_attempts(username, address)
        with throttle.turn(attempts):
            user = self._user(username)
            self.count(attempts, user)
            if not is_password(password, user.password_hash if user and not user.disabled else None) or user is None:
                raise _bad_credentials(user)
            now = clock.now()
            with self.database.writing() as session:
                locked = locked_user(session, user.id)
                if locked is None or locked.disabled or locked.password_hash != user.password_hash:
                    raise _bad_credentials(user)
                if locked.totp_enabled:
                    throttle.take_back(session, attempts, now)
                    return _challenge(session, locked, now)
                throttle.forget(session, attempts)
                return self._start(session, locked, address, now)

    def with_code(self, challenge_token: str, code: str, address: str | None) -> LoggedIn:
        """Given a challenge and the current code, return an access token. Raise LoginRefused, LoginThrottled."""
        user = self._challenged_user(challenge_token)
        attempts = throttle.code_attempts(user.username)
        with throttle.turn(attempts):
            self.count(attempts, user)
            now = clock.now()
            with self.database.writing() as session:
                locked = locked_user(session, user.id)
                if locked is None or locked.disabled or not locked.totp_enabled:
                    raise _bad_challenge(user)
                step = totp.matching_step(self.vault, locked, code, now)
                if step is None or not totp.use_step(session, locked.id, step):
                    raise LoginRefused("auth.bad_code", "The code is wrong or has already been used.", user)
                if not _use_challenge(session, challenge_token):
                    raise _bad_challenge(user)
                throttle.forget(session, attempts)
                return self._start(session, locked, address, now)

    def refreshed(self, session: Session, caller: Caller) -> LoggedIn:
        """Return a new access token for the caller's session."""
        public_id = session.execute(
            select(LoginSession.public_id).where(LoginSession.id == caller.session_id)
        ).scalar_one()
        return self.token(public_id, caller.must_change_password)

    def token(self, public_id: str, must_change_password: bool) -> LoggedIn:
        life = timedelta(minutes=self.settings.access_token_minutes)
        token = access_tokens.issue(self.vault, public_id, clock.now(), life)
        return LoggedIn(token, int(life.total_seconds()), must_change_password, public_id)

    def count(self, attempts: throttle.Attempts, user: User | None) -> None:
        """Count an attempt in its own transaction. Raise LoginThrottled if no further one is allowed."""
        try:
            with self.database.writing() as session:
                throttle.count(session, attempts, clock.now())
        except TooManyRequests as refusal:
            raise LoginThrottled(refusal, user) from refusal

    def _start(self, session: Session, user: User, address: str | None, now: datetime) -> LoggedIn:
        user.last_login_at = now
        login = sessions.start(session, user.id, address, now)
        audit.add(
            session, audit.entry(actor_user_id=user.id, actor=user.username, action="auth.login", address=address)
        )
        return self.token(login.public_id, user.must_change_password)

    def _user(self, username: str) -> User | None:
        with self.database.reading() as session:
            return session.execute(select(User).filter_by(username_key=username_key(username))).scalar_one_or_none()

    def _challenged_user(self, challenge_token: str) -> User:
        wanted = (
            select(User)
            .join(LoginChallenge, LoginChallenge.user_id == User.id)
            .where(LoginChallenge.token_hash == token_hash(challenge_token), LoginChallenge.expires_at > clock.now())
        )
        with self.database.reading() as session:
            user = session.execute(wanted).scalar_one_or_none()
        if user is None:
            raise _bad_challenge(None)
        return user


def locked_user(session: Session, user_id: int) -> User | None:
    """The user's current row, locked until this transaction ends."""
    return session.execute(select(User).filter_by(id=user_id).with_for_update()).scalar_one_or_none()


def _challenge(session: Session, user: User, now: datetime) -> CodeNeeded:
    token = new_token(CHALLENGE_PREFIX)
    session.add(LoginChallenge(token_hash=token_hash(token), user_id=user.id, expires_at=now + CHALLENGE_LIFE))
    return CodeNeeded(token, int(CHALLENGE_LIFE.total_seconds()))


def _use_challenge(session: Session, challenge_token: str) -> bool:
    used = delete(LoginChallenge).where(LoginChallenge.token_hash == token_hash(challenge_token))
    return session.execute(used.returning(LoginChallenge.id)).scalar_one_or_none() is not None


def _bad_credentials(user: User | None) -> LoginRefused:
    return LoginRefused("auth.bad_credentials", "The user name or the password is wrong.", user)


def _bad_challenge(user: User | None) -> LoginRefused:
    return LoginRefused("auth.challenge_invalid", "The login has expired or is already complete; start again.", user)
