"""Responses offer exactly the actions that routes allow: compared with the table of who may call which route."""

import pytest

from holdfast.access.caller import Caller
from holdfast.access.permissions import OF_THE_SERVICE, Action, capabilities
from holdfast.access.roles import Role
from holdfast.access.scopes import TokenScope
from holdfast.operations.actions import OF_AN_OPERATION
from holdfast.repositories.actions import OF_A_REPOSITORY
from tests.attacks.roles.table import rows

TABLE = rows()
LEAST = {"anyone": Role.VIEWER, "operator": Role.OPERATOR, "admin": Role.ADMIN, "administrator": Role.ADMIN}
ACTIONS = [*OF_THE_SERVICE, *OF_A_REPOSITORY, *OF_AN_OPERATION]


def caller(role: Role, scope: TokenScope | None = None, *, must_change: bool = False) -> Caller:
    session, token = (None, 1) if scope else (1, None)
    return Caller(1, "anna", role, None, session, token, must_change, None, scope)


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.name)
def test_an_action_requires_what_its_route_requires(action: Action) -> None:
    row = TABLE[action.route]

    assert action.least is LEAST[row.least]
    assert action.needs_login is (row.credential == "login")


def test_actions_on_the_same_resource_have_distinct_names() -> None:
    for actions in (OF_THE_SERVICE, OF_A_REPOSITORY, OF_AN_OPERATION):
        assert len({action.name for action in actions}) == len(actions)


@pytest.mark.parametrize(
    ("held", "scope", "needs_login", "refusal"),
    [
        (Role.OPERATOR, None, True, None),
        (Role.ADMIN, None, True, None),
        (Role.VIEWER, None, True, "access.forbidden"),
        (Role.ADMIN, TokenScope.ADMIN, True, "auth.login_token_required"),
        (Role.ADMIN, TokenScope.READ, False, "auth.scope_too_narrow"),
        (Role.ADMIN, TokenScope.OPERATE, False, None),
        (Role.VIEWER, TokenScope.ADMIN, False, "access.forbidden"),
    ],
)
def test_a_refusal_names_what_is_missing(
    held: Role, scope: TokenScope | None, needs_login: bool, refusal: str | None
) -> None:
    action = Action("action", "POST /route", Role.OPERATOR, needs_login)

    assert action.refusal(caller(held, scope), held) == refusal


def test_a_token_never_allows_more_than_its_scope() -> None:
    action = Action("action", "POST /route", Role.ADMIN)

    assert action.refusal(caller(Role.ADMIN, TokenScope.OPERATE), Role.ADMIN) == "access.forbidden"


def test_capabilities_follow_from_role_and_credential() -> None:
    assert capabilities(caller(Role.ADMIN)) == [action.name for action in OF_THE_SERVICE]
    assert capabilities(caller(Role.OPERATOR)) == ["create_tokens"]
    assert capabilities(caller(Role.ADMIN, TokenScope.READ)) == []
    assert "manage_users" not in capabilities(caller(Role.ADMIN, TokenScope.ADMIN))
    assert capabilities(caller(Role.ADMIN, must_change=True)) == []
