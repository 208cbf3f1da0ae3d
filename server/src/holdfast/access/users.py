"""Users and their rights, managed by admins."""

from functools import partial
from typing import Annotated, Any

from fastapi import Depends
from sqlalchemy import and_, bindparam, delete, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from holdfast.access import account_tokens, audit, initial_password, sessions
from holdfast.access.account import set_password
from holdfast.access.caller import MOST_KNOWN, Caller
from holdfast.access.login import locked_user
from holdfast.access.models import RepositoryRight, User
from holdfast.access.rights import repository_not_found
from holdfast.access.roles import Role
from holdfast.access.usernames import username_key
from holdfast.api.parts import Part
from holdfast.api.shared_lookups import SharedLookups
from holdfast.api.threads import in_thread
from holdfast.errors import Conflict, NotFound, Unavailable
from holdfast.kit import clock
from holdfast.settings import Settings
from holdfast.storage.inserts import insert_or_replace, insert_unless_there
from holdfast.storage.read_cache import Proof, Query, ReadCache
from holdfast.storage.session import Database, Reading

FEW_RIGHTS = 50
"""Accounts with at most this many rights are read on the event loop."""


@frozen
class NewUser:
    username: str
    password_hash: str
    role: Role
    email: str | None = None
    all_repositories_role: Role | None = None
    must_change_password: bool = True


@frozen
class UserChange:
    """The fields to change, with the names used by the API. A password is given as its hash."""

    fields: dict[str, Any]
    password_hash: str | None = None
    must_change_password: bool | None = None
    end_tokens: bool = False


def all_users(session: Session) -> list[User]:
    return list(session.execute(select(User).order_by(User.id)).scalars())


def with_right_on(session: Session, repository_id: int, after: int, limit: int) -> list[tuple[User, Role | None]]:
    """Users after a given id, ordered by id, each with their own right on the repository."""
    own = and_(RepositoryRight.user_id == User.id, RepositoryRight.repository_id == repository_id)
    statement = select(User, RepositoryRight.role).outerjoin(RepositoryRight, own).where(User.id > after)
    return [(user, role) for user, role in session.execute(statement.order_by(User.id).limit(limit))]


def rights_by_user(session: Session, *user_ids: int) -> dict[int, list[RepositoryRight]]:
    """The rights of the given users, or of all users if none are given."""
    statement = select(RepositoryRight).order_by(RepositoryRight.user_id, RepositoryRight.repository_id)
    if user_ids:
        statement = statement.where(RepositoryRight.user_id.in_(user_ids))
    found: dict[int, list[RepositoryRight]] = {}
    for right in session.execute(statement).scalars():
        found.setdefault(right.user_id, []).append(right)
    return found


def user_of(session: Session, user_id: int) -> User:
    user = session.get(User, user_id)
    if user is None:
        raise user_not_found(user_id)
    return user


@frozen
class AccountRecord:
    """A user and their rights as last read from the store; read-only."""

    user: User
    rights: list[RepositoryRight]


_USER = Query(select(User.__table__).where(User.id == bindparam("wanted")), "wanted")
RIGHTS = Query(
    select(RepositoryRight.__table__)
    .where(RepositoryRight.user_id == bindparam("wanted"))
    .order_by(RepositoryRight.repository_id),
    "wanted",
)


def _proof_of(known: AccountRecord) -> Proof:
    """The queries that revalidate a cached account. They run on the event loop, so large accounts have none."""
    return ((_USER, known.user.id), (RIGHTS, known.user.id)) if len(known.rights) <= FEW_RIGHTS else ()


class Accounts:
    """Cache of accounts for users who read their own. An entry stays valid until one of the rows it was read from
    changes.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: ReadCache[AccountRecord] = ReadCache(database.version, MOST_KNOWN, _proof_of)
        self._lookups = SharedLookups(self._known.get, is_cached=database.version is not None)

    async def of(self, user_id: int) -> AccountRecord:
        known = self._known.get(user_id) or self._renewed(user_id)
        return known or await self._lookups.of(user_id, partial(self._look_up, user_id))

    async def _look_up(self, user_id: int) -> AccountRecord:
        read = partial(self._read, self._database.reading, user_id)
        return await in_thread("reading", partial(self._known.read, user_id, read))

    def _renewed(self, user_id: int) -> AccountRecord | None:
        """Read a small, previously cached account directly on the event loop, which is cheaper than using a thread."""
        earlier = self._known.earlier(user_id)
        if earlier is None or len(earlier.rights) > FEW_RIGHTS:
            return None
        try:
            return self._known.read(user_id, partial(self._read, self._database.reading_at_once, user_id))
        except Unavailable:
            return None

    def _read(self, reading: Reading, user_id: int) -> AccountRecord:
        with reading() as session:
            return AccountRecord(user_of(session, user_id), rights_by_user(session, user_id).get(user_id, []))


ACCOUNTS = Part[Accounts]("accounts")


TheAccounts = Annotated[Accounts, Depends(ACCOUNTS)]


def create(session: Session, actor: Caller | None, new: NewUser) -> User:
    """Add a user. Raise Conflict if the name is taken, ignoring case."""
    now = clock.now()
    values = {
        "username": new.username,
        "username_key": username_key(new.username),
        "password_hash": new.password_hash,
        "role": new.role,
        "email": new.email,
        "all_repositories_role": new.all_repositories_role,
        "must_change_password": new.must_change_password,
        "created_at": now,
        "updated_at": now,
    }
    user_id = insert_unless_there(session, User, values)
    if user_id is None:
        raise Conflict("users.username_taken", "A user with this name already exists.")
    details = {"username": new.username, "role": new.role}
    audit.record(session, actor=actor, action="users.created", object_type="user", object_id=user_id, details=details)
    return session.get_one(User, user_id)


def change(session: Session, settings: Settings, actor: Caller | None, user_id: int, wanted: UserChange) -> User:
    """Change a user. A new role or password, or disabling, ends their sessions; disabling also revokes their tokens.

    Raise NotFound, Conflict.
    """
    user = locked(session, user_id)
    fields = {name: value for name, value in wanted.fields.items() if getattr(user, name) != value}
    stops_being_admin = fields.get("role", Role.ADMIN) is not Role.ADMIN or fields.get("disabled", False)
    if user.role is Role.ADMIN and not user.disabled and stops_being_admin:
        _require_another_admin(session, user_id)
    for name, value in fields.items():
        setattr(user, name, value)
    if wanted.must_change_password is not None:
        user.must_change_password = wanted.must_change_password
    if wanted.password_hash is not None:
        set_password(session, settings, user, wanted.password_hash, must_change=user.must_change_password)
    if fields.keys() & {"role", "disabled"}:
        sessions.end_all(session, user_id, clock.now())
    if wanted.end_tokens or fields.get("disabled"):
        fields["tokens_ended"] = account_tokens.end_all(session, user_id)
    _record_change(session, actor, user, fields, wanted)
    return user


def remove(session: Session, settings: Settings, actor: Caller | None, user_id: int) -> None:
    """Remove a user with their sessions, tokens and rights. Raise NotFound, or Conflict for the last admin."""
    user = locked(session, user_id)
    if user.role is Role.ADMIN and not user.disabled:
        _require_another_admin(session, user_id)
    if user.has_initial_password:
        initial_password.remove_after_commit(session, settings)
    details = {"username": user.username}
    audit.record(session, actor=actor, action="users.deleted", object_type="user", object_id=user_id, details=details)
    session.execute(delete(User).where(User.id == user_id))


def give_right(session: Session, actor: Caller, user_id: int, repository_id: int, role: Role) -> None:
    """Grant a right on a repository. Raise NotFound if the user or the repository does not exist."""
    locked(session, user_id)
    key = {"user_id": user_id, "repository_id": repository_id}
    try:
        insert_or_replace(session, RepositoryRight, key, {"role": role})
    except IntegrityError as error:  # relies on the foreign key; this module does not import the repositories table
        raise repository_not_found(repository_id) from error
    _record_right(session, actor, "users.right_given", user_id, repository_id, role)


def take_right(session: Session, actor: Caller, user_id: int, repository_id: int) -> None:
    locked(session, user_id)
    right = session.get(RepositoryRight, (user_id, repository_id))
    if right is None:
        raise NotFound("users.right_not_found", "The user has no right of their own for this repository.")
    session.delete(right)
    _record_right(session, actor, "users.right_taken", user_id, repository_id, right.role)


def user_not_found(user_id: int | str) -> NotFound:
    return NotFound("users.not_found", "User not found.", user=user_id)


def locked(session: Session, user_id: int) -> User:
    _lock_admins(session)
    user = locked_user(session, user_id)
    if user is None:
        raise user_not_found(user_id)
    return user


def _lock_admins(session: Session) -> list[int]:
    """Lock the rows of all admins who can log in until this transaction ends, and return their ids.

    They are always locked in the same order and before any other user's row, which prevents deadlocks.
    """
    admins = select(User.id).where(User.role == Role.ADMIN, User.disabled.is_(False)).order_by(User.id)
    return list(session.execute(admins.with_for_update()).scalars())


def _require_another_admin(session: Session, user_id: int) -> None:
    if set(_lock_admins(session)) <= {user_id}:
        raise Conflict("users.last_admin", "The last admin cannot be removed, disabled or demoted.")


def _record_change(
    session: Session, actor: Caller | None, user: User, fields: dict[str, Any], wanted: UserChange
) -> None:
    changed = dict(fields)
    if wanted.password_hash is not None:
        changed["password"] = "changed"  # noqa: S105 - the fact, not the password
    details = {"username": user.username, "changed": changed}
    audit.record(session, actor=actor, action="users.changed", object_type="user", object_id=user.id, details=details)


def _record_right(session: Session, actor: Caller, action: str, user_id: int, repository_id: int, role: Role) -> None:
    details = {"repository_id": repository_id, "role": role}
    audit.record(session, actor=actor, action=action, object_type="user", object_id=user_id, details=details)
