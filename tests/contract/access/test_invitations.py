"""Invitations: a user chooses their own password through a link that works once."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from holdfast.access.models import User
from holdfast.access.roles import Role
from holdfast.kit import clock
from tests.contract.access.application import PASSWORD, Service, key_of

OWN = "a password of my own"


@pytest.fixture
def admin(service: Service) -> dict[str, str]:
    service.add_user("root", Role.ADMIN)
    return service.log_in("root")


def invited(service: Service, admin: dict[str, str], **body: Any) -> tuple[int, str]:
    user = {"username": "anna", "role": "viewer"}
    created = service.client.post("/api/users", json=user, headers=admin)
    assert created.status_code == 201, created.text
    number = created.json()["id"]
    return number, invitation(service, admin, number, **body)


def invitation(service: Service, admin: dict[str, str], user: int, **body: Any) -> str:
    answer = service.client.post(f"/api/users/{user}/invitation", json=body, headers=admin)
    assert answer.status_code == 201, answer.text
    assert answer.json()["path"] == f"/join#{answer.json()['token']}"
    token: str = answer.json()["token"]
    return token


def accept(service: Service, token: str, password: str = OWN) -> Any:
    body = {"token": token, "new_password": password}
    return service.client.post("/api/auth/invitation/accept", json=body)


def test_an_invited_user_chooses_a_password_once_and_logs_in_with_it(service: Service, admin: dict[str, str]) -> None:
    user, token = invited(service, admin)
    shown = service.client.get(f"/api/users/{user}", headers=admin)
    assert shown.json()["invited_until"] is not None
    assert token not in shown.text
    seen = service.client.post("/api/auth/invitation", json={"token": token})
    assert (seen.status_code, seen.json()["username"]) == (200, "anna")

    assert accept(service, token).status_code == 200

    login = service.try_login("anna", OWN)
    assert (login.status_code, login.json()["must_change_password"]) == (200, False)
    assert (accept(service, token).status_code, key_of(accept(service, token))) == (404, "auth.bad_invitation")
    assert service.client.get(f"/api/users/{user}", headers=admin).json()["invited_until"] is None
    actions = [one["action"] for one in service.client.get("/api/audit", headers=admin).json()["entries"]]
    assert {"users.invited", "users.invitation_accepted"} <= set(actions)


def test_an_invited_user_cannot_log_in_before_choosing_a_password(service: Service, admin: dict[str, str]) -> None:
    invited(service, admin)

    for guess in ("", " ", PASSWORD, "None", "null"):
        assert service.try_login("anna", guess).status_code in (401, 422)


@pytest.mark.parametrize("spoilt", ["again", "withdrawn", "expired", "disabled", "password", "deleted"])
def test_a_replaced_withdrawn_or_expired_invitation_is_refused(
    service: Service, admin: dict[str, str], spoilt: str
) -> None:
    user, token = invited(service, admin)
    place = f"/api/users/{user}"
    if spoilt == "again":
        invitation(service, admin, user)
    elif spoilt == "withdrawn":
        assert service.client.delete(f"{place}/invitation", headers=admin).status_code == 204
        assert key_of(service.client.delete(f"{place}/invitation", headers=admin)) == "users.not_invited"
    elif spoilt == "expired":
        with service.database.writing() as session:
            session.get_one(User, user).invitation_expires_at = clock.now() - timedelta(seconds=1)
    elif spoilt == "deleted":
        assert service.client.delete(place, headers=admin).status_code == 204
    else:
        change = {"disabled": True} if spoilt == "disabled" else {"password": PASSWORD}
        assert service.client.put(place, json=change, headers=admin).status_code == 200

    assert key_of(service.client.post("/api/auth/invitation", json={"token": token})) == "auth.bad_invitation"
    assert key_of(accept(service, token)) == "auth.bad_invitation"
    assert service.try_login("anna", OWN).status_code == 401


def test_simultaneous_uses_of_one_invitation_succeed_only_once(service: Service, admin: dict[str, str]) -> None:
    _, token = invited(service, admin)

    with ThreadPoolExecutor(6) as pool:
        codes = sorted(pool.map(lambda number: accept(service, token, f"{OWN} {number}").status_code, range(6)))

    assert codes == [200] + [404] * 5


def test_only_admins_create_invitations_and_only_for_other_users(service: Service, admin: dict[str, str]) -> None:
    service.add_user("otto", Role.OPERATOR)
    me = service.client.get("/api/auth/me", headers=admin).json()["id"]
    place = f"/api/users/{me}/invitation"

    assert service.client.post(place, json={}, headers=service.log_in("otto")).status_code == 403
    assert service.client.post(place, json={}).status_code == 401
    assert key_of(service.client.post(place, json={}, headers=admin)) == "users.invited_yourself"
    assert key_of(service.client.post("/api/users/999/invitation", json={}, headers=admin)) == "users.not_found"
    user, token = invited(service, admin)
    for hours in (0, 721, "soon"):
        body = {"expires_in_hours": hours}
        assert service.client.post(f"/api/users/{user}/invitation", json=body, headers=admin).status_code == 422
    assert accept(service, token, "short").status_code == 422
    assert accept(service, token).status_code == 200, "refused requests leave the invitation as it is"


def test_a_second_factor_is_still_required_after_an_invitation_was_accepted(
    service: Service, admin: dict[str, str]
) -> None:
    user, token = invited(service, admin)
    with service.database.writing() as session:
        session.get_one(User, user).totp_enabled = True

    assert accept(service, token).status_code == 200

    login = service.try_login("anna", OWN).json()
    assert (login["totp_required"], login["access_token"]) == (True, None)
