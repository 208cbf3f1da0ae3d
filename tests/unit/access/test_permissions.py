"""The acts that answers offer are those that routes allow: held equal to the table of who may call which route."""

import pytest

from holdfast.access.acts import OF_THE_SERVICE, Act, capabilities
from holdfast.access.caller import Caller
from holdfast.access.roles import Role
from holdfast.access.scopes import TokenScope
from holdfast.operations.actions import OF_AN_OPERATION
from holdfast.repositories.actions import OF_A_REPOSITORY
from tests.attacks.roles.table import rows

TABLE = rows()
LEAST = {"anyone": Role.VIEWER, "operator": Role.OPERATOR, "admin": Role.ADMIN, "administrator": Role.ADMIN}
ACTS = [*OF_THE_SERVICE, *OF_A_REPOSITORY, *OF_AN_OPERATION]


def caller(role: Role, scope: TokenScope | None = None, *, must_change: bool = False) -> Caller:
    session, token = (None, 1) if scope else (1, None)
    return Caller(1, "anna", role, None, session, token, must_change, None, scope)


@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.name)
def test_an_act_asks_for_what_its_route_asks_for(act: Act) -> None:
    row = TABLE[act.route]

    assert act.least is LEAST[row.least]
    assert act.needs_login is (row.credential == "login")


def test_no_two_acts_of_a_thing_have_the_same_name() -> None:
    for acts in (OF_THE_SERVICE, OF_A_REPOSITORY, OF_AN_OPERATION):
        assert len({act.name for act in acts}) == len(acts)


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
    act = Act("act", "POST /route", Role.OPERATOR, needs_login)

    assert act.refusal(caller(held, scope), held) == refusal


def test_a_token_never_allows_more_than_its_scope() -> None:
    act = Act("act", "POST /route", Role.ADMIN)

    assert act.refusal(caller(Role.ADMIN, TokenScope.OPERATE), Role.ADMIN) == "access.forbidden"


def test_capabilities_follow_from_role_and_credential() -> None:
    assert capabilities(caller(Role.ADMIN)) == [act.name for act in OF_THE_SERVICE]
    assert capabilities(caller(Role.OPERATOR)) == ["create_tokens"]
    assert capabilities(caller(Role.ADMIN, TokenScope.READ)) == []
    assert "manage_users" not in capabilities(caller(Role.ADMIN, TokenScope.ADMIN))
    assert capabilities(caller(Role.ADMIN, must_change=True)) == []
