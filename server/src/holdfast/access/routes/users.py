"""/api/users: user management for admins."""

import secrets
from typing import Annotated

from fastapi import Body
from starlette.concurrency import run_in_threadpool

from holdfast.access import invitations
from holdfast.access import users as use_case
from holdfast.access.caller import AdminLoginOnly, AdminOnly, Caller
from holdfast.access.passwords import Hashing, client_key, hash_password
from holdfast.access.schemas import (
    InvitationCreate,
    InvitationMade,
    RightChange,
    UserAnswer,
    UserCreate,
    Users,
    UserUpdate,
)
from holdfast.access.users import NewUser, UserChange, rights_by_user, user_of
from holdfast.api.answers import documented
from holdfast.api.dependencies import Reading, TheDatabase, TheSettings, Writing
from holdfast.api.router import router
from holdfast.kit.fields import RowId
from holdfast.settings import Settings
from holdfast.storage.session import Database

users = router("/api/users", "Users")


@users.get("", summary="All users")
def list_users(_caller: AdminOnly, session: Reading) -> Users:
    rights = rights_by_user(session)
    return Users(users=[UserAnswer.of(user, rights.get(user.id, [])) for user in use_case.all_users(session)])


@users.post("", summary="Create a user", status_code=201, responses=documented(409))
async def create_user(body: UserCreate, caller: AdminLoginOnly, database: TheDatabase, hashing: Hashing) -> UserAnswer:
    """A new user has no rights on repositories until an admin grants them."""
    password = body.password if body.password is not None else secrets.token_urlsafe(32)
    new = NewUser(
        username=body.username,
        password_hash=await hashing.run(client_key(caller), hash_password, password),
        role=body.role,
        email=body.email,
        all_repositories_role=body.all_repositories_role,
        must_change_password=body.must_change_password and body.password is not None,
    )
    return await run_in_threadpool(_create, database, caller, new)


@users.get("/{user_id}", summary="One user", responses=documented(404))
def get_user(user_id: RowId, _caller: AdminOnly, session: Reading) -> UserAnswer:
    return UserAnswer.of(user_of(session, user_id), rights_by_user(session, user_id).get(user_id, []))


@users.put("/{user_id}", summary="Change a user", responses=documented(404, 409))
async def change_user(
    user_id: RowId,
    body: UserUpdate,
    caller: AdminLoginOnly,
    database: TheDatabase,
    settings: TheSettings,
    hashing: Hashing,
) -> UserAnswer:
    """A new role, a new password or disabling ends the user's sessions; disabling also revokes their account tokens."""
    password_hash = (
        await hashing.run(client_key(caller), hash_password, body.password) if body.password is not None else None
    )
    wanted = UserChange(
        _changed_fields(body), password_hash, _must_change(body, own=caller.user_id == user_id), body.end_tokens
    )
    return await run_in_threadpool(_change, database, settings, caller, user_id, wanted)


@users.delete("/{user_id}", summary="Remove a user", status_code=204, responses=documented(404, 409))
def remove_user(user_id: RowId, caller: AdminLoginOnly, settings: TheSettings, session: Writing) -> None:
    use_case.remove(session, settings, caller, user_id)


@users.put(
    "/{user_id}/repositories/{repository_id}", summary="Grant a right on a repository", responses=documented(404)
)
def give_right(
    user_id: RowId, repository_id: RowId, body: RightChange, caller: AdminLoginOnly, session: Writing
) -> UserAnswer:
    use_case.give_right(session, caller, user_id, repository_id, body.role)
    return UserAnswer.of(user_of(session, user_id), rights_by_user(session, user_id).get(user_id, []))


@users.delete(
    "/{user_id}/repositories/{repository_id}",
    summary="Revoke a right on a repository",
    status_code=204,
    responses=documented(404),
)
def take_right(user_id: RowId, repository_id: RowId, caller: AdminLoginOnly, session: Writing) -> None:
    use_case.take_right(session, caller, user_id, repository_id)


@users.post(
    "/{user_id}/invitation",
    summary="Invite a user to choose a password",
    status_code=201,
    responses=documented(404, 409),
)
def invite(
    user_id: RowId,
    caller: AdminLoginOnly,
    session: Writing,
    body: Annotated[InvitationCreate | None, Body()] = None,
) -> InvitationMade:
    """The link works once. It becomes invalid when the password changes or another link is created."""
    token, invited = invitations.invite(session, caller, user_id, (body or InvitationCreate()).expires_in_hours)
    return InvitationMade(token=token, path=f"/join#{token}", expires_at=invited.expires_at)


@users.delete("/{user_id}/invitation", summary="Withdraw an invitation", status_code=204, responses=documented(404))
def withdraw_invitation(user_id: RowId, caller: AdminLoginOnly, session: Writing) -> None:
    invitations.withdraw(session, caller, user_id)


def _create(database: Database, caller: Caller, new: NewUser) -> UserAnswer:
    with database.writing() as session:
        return UserAnswer.of(use_case.create(session, caller, new), [])


def _change(database: Database, settings: Settings, caller: Caller, user_id: int, wanted: UserChange) -> UserAnswer:
    with database.writing() as session:
        user = use_case.change(session, settings, caller, user_id, wanted)
        session.flush()
        return UserAnswer.of(user, rights_by_user(session, user_id).get(user_id, []))


def _changed_fields(body: UserUpdate) -> dict[str, object]:
    """The fields that were sent. Null clears optional fields and leaves required ones unchanged."""
    sent = {name: getattr(body, name) for name in body.model_fields_set & {"email", "all_repositories_role"}}
    for name in ("role", "disabled"):
        if getattr(body, name) is not None:
            sent[name] = getattr(body, name)
    return sent


def _must_change(body: UserUpdate, *, own: bool) -> bool | None:
    if body.must_change_password is not None or body.password is None:
        return body.must_change_password
    return not own
