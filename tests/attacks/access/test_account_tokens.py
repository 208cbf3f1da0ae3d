"""What an attacker who found an account token in a script can do."""

from datetime import timedelta

import pytest
import time_machine

from holdfast.access.caller import identify, still_valid
from holdfast.access.roles import Role
from holdfast.kit import clock
from tests.contract.access.application import PASSWORD, Service, header, key_of

LOGIN_NEEDED = (403, "auth.login_token_required")


@pytest.fixture
def admin(service: Service) -> dict[str, str]:
    service.add_user("root", Role.ADMIN)
    return service.log_in("root")


@pytest.mark.parametrize("scope", ["read", "operate", "admin"])
def test_an_admins_account_token_can_create_neither_users_nor_tokens(
    service: Service, admin: dict[str, str], scope: str
) -> None:
    user_id = service.add_user("anna")
    token = service.account_token(admin, scope=scope)
    wanted = {"username": "eve", "password": PASSWORD, "role": "admin"}
    attempts = [
        service.client.post("/api/users", json=wanted, headers=token),
        service.client.put(f"/api/users/{user_id}", json={"role": "admin"}, headers=token),
        service.client.put(f"/api/users/{user_id}", json={"password": PASSWORD * 2}, headers=token),
        service.client.delete(f"/api/users/{user_id}", headers=token),
        service.client.post("/api/settings/tokens", json={"name": "more"}, headers=token),
    ]
    assert all((answer.status_code, key_of(answer)) == LOGIN_NEEDED for answer in attempts)
    assert len(service.client.get("/api/users", headers=admin).json()["users"]) == 2
    assert len(service.client.get("/api/settings/tokens", headers=admin).json()["tokens"]) == 1


@pytest.mark.parametrize(("scope", "refused"), [("read", "auth.scope_too_narrow"), ("operate", "access.forbidden")])
def test_the_scope_limits_what_an_admins_token_may_change(
    service: Service, admin: dict[str, str], scope: str, refused: str
) -> None:
    repository_id = service.add_repository()
    place = f"/probe/repositories/{repository_id}/operator"
    token = service.account_token(admin, scope=scope)
    assert service.client.get(place, headers=token).status_code == 200
    assert service.client.get("/api/users", headers=token).status_code == 200
    assert service.client.post(place, headers=token).status_code == (403 if scope == "read" else 200)
    answer = service.client.post("/probe/admin", headers=token)
    assert (answer.status_code, key_of(answer)) == (403, refused)
    assert service.client.post("/probe/admin", headers=service.account_token(admin, scope="admin")).status_code == 200


def test_a_wide_scope_gives_a_user_no_additional_rights(service: Service) -> None:
    repository_id = service.add_repository()
    service.add_user("anna", Role.VIEWER)
    token = service.account_token(service.log_in("anna"), scope="admin")
    for ask in (service.client.get, service.client.post):  # a scope restricts only requests that change something
        assert ask("/probe/admin", headers=token).status_code == 403
        assert ask(f"/probe/repositories/{repository_id}/viewer", headers=token).status_code == 404


def test_by_default_a_token_is_read_only_and_expires_after_a_year(service: Service, admin: dict[str, str]) -> None:
    created = service.client.post("/api/settings/tokens", json={"name": "script"}, headers=admin).json()
    assert created["scope"] == "read"
    with time_machine.travel(clock.now() + timedelta(days=364), tick=False):
        assert service.client.get("/probe/signed-in", headers=header(created["token"])).status_code == 200
    with time_machine.travel(clock.now() + timedelta(days=366), tick=False):
        answer = service.client.get("/probe/signed-in", headers=header(created["token"]))
        assert (answer.status_code, key_of(answer)) == (401, "auth.token_expired")


def test_work_that_outlives_its_request_ends_when_the_token_expires(service: Service, admin: dict[str, str]) -> None:
    token = service.account_token(admin, expires_in_days=1)["X-Backup-Authorization"].removeprefix("Bearer ")
    access = service.access
    found = identify(service.database, service.settings, access.vault, token, None, may_be_expired=False)
    with service.database.reading() as session:
        assert still_valid(session, service.settings, found.caller) is not None
        with time_machine.travel(clock.now() + timedelta(days=2), tick=False):
            assert still_valid(session, service.settings, found.caller) is None


@pytest.mark.parametrize("wanted", [{"scope": "root"}, {"expires_in_days": 0}, {"expires_in_days": 4000}])
def test_an_unknown_scope_or_an_invalid_lifetime_is_refused(
    service: Service, admin: dict[str, str], wanted: dict[str, object]
) -> None:
    answer = service.client.post("/api/settings/tokens", json={"name": "script", **wanted}, headers=admin)
    assert answer.status_code == 422
    assert service.client.get("/api/settings/tokens", headers=admin).json() == {"tokens": []}


def test_disabling_a_user_permanently_ends_their_tokens(service: Service, admin: dict[str, str]) -> None:
    user_id = service.add_user("anna")
    token = service.account_token(service.log_in("anna"))
    service.client.put(f"/api/users/{user_id}", json={"disabled": True}, headers=admin)
    service.client.put(f"/api/users/{user_id}", json={"disabled": False}, headers=admin)
    assert service.client.get("/probe/signed-in", headers=token).status_code == 401
    assert service.client.get("/api/settings/tokens", headers=service.log_in("anna")).json() == {"tokens": []}


def test_a_password_change_ends_the_tokens_on_request(service: Service) -> None:
    service.add_user("anna")
    login = service.log_in("anna")
    token = service.account_token(login)
    kept = {"current_password": PASSWORD, "new_password": "another password"}
    answer = service.client.post("/api/auth/change-password", json=kept, headers=login)
    login = header(answer.json()["access_token"])
    assert service.client.get("/probe/signed-in", headers=token).status_code == 200
    ended = {"current_password": "another password", "new_password": PASSWORD, "end_tokens": True}
    assert service.client.post("/api/auth/change-password", json=ended, headers=login).status_code == 200
    assert service.client.get("/probe/signed-in", headers=token).status_code == 401


def test_an_admin_who_resets_a_password_can_end_the_users_tokens(service: Service, admin: dict[str, str]) -> None:
    user_id = service.add_user("anna")
    token = service.account_token(service.log_in("anna"))
    body = {"password": "chosen by the admin", "end_tokens": True}
    assert service.client.put(f"/api/users/{user_id}", json=body, headers=admin).status_code == 200
    assert service.client.get("/probe/signed-in", headers=token).status_code == 401


def test_a_token_can_revoke_itself_but_no_other_token(service: Service) -> None:
    service.add_user("anna")
    login = service.log_in("anna")
    token, other = service.account_token(login), service.account_token(login)
    mine, others = (entry["id"] for entry in service.client.get("/api/settings/tokens", headers=login).json()["tokens"])
    answer = service.client.delete(f"/api/settings/tokens/{others}", headers=token)
    assert (answer.status_code, key_of(answer)) == LOGIN_NEEDED
    assert service.client.delete(f"/api/settings/tokens/{mine}", headers=token).status_code == 204
    assert service.client.get("/probe/signed-in", headers=token).status_code == 401
    assert service.client.get("/probe/signed-in", headers=other).status_code == 200
