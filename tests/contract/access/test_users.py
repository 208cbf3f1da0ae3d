from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import delete, func, select

from holdfast.access.models import AccountToken, LoginSession, RepositoryRight, User
from holdfast.access.roles import Role
from tests.contract.access.application import PASSWORD, Service, header, key_of


@pytest.fixture
def admin(service: Service) -> dict[str, str]:
    service.add_user("root", Role.ADMIN)
    return service.log_in("root")


def new_user(**fields: Any) -> dict[str, Any]:
    return {"username": "anna", "password": PASSWORD, "role": "viewer", **fields}


def test_an_admin_creates_a_user_who_must_change_the_password(service: Service, admin: dict[str, str]) -> None:
    answer = service.client.post("/api/users", json=new_user(email="anna@example.org"), headers=admin)
    assert answer.status_code == 201
    created = answer.json()
    assert (created["username"], created["role"], created["email"]) == ("anna", "viewer", "anna@example.org")
    assert created["all_repositories_role"] is None
    assert created["must_change_password"] is True
    assert created["repositories"] == []
    assert PASSWORD not in answer.text
    assert service.client.get(f"/api/users/{created['id']}", headers=admin).json() == created
    assert created in service.client.get("/api/users", headers=admin).json()["users"]
    assert service.try_login("anna").json()["must_change_password"] is True


@pytest.mark.parametrize("name", ["anna", "ANNA", " Anna "])
def test_a_username_taken_in_any_case_is_a_conflict(service: Service, admin: dict[str, str], name: str) -> None:
    service.add_user("Anna")
    answer = service.client.post("/api/users", json=new_user(username=name), headers=admin)
    assert (answer.status_code, key_of(answer)) == (409, "users.username_taken")


def test_simultaneous_creations_with_one_username_succeed_only_once(service: Service, admin: dict[str, str]) -> None:
    def create(_: int) -> int:
        return service.client.post("/api/users", json=new_user(), headers=admin).status_code

    with ThreadPoolExecutor(8) as pool:
        codes = sorted(pool.map(create, range(8)))
    assert codes == [201] + [409] * 7


@pytest.mark.parametrize(
    "fields",
    [
        {"username": ""},
        {"username": "two words"},
        {"username": "-dash"},
        {"username": "a" * 65},
        {"username": "a\0b"},
        {"username": "\N{CYRILLIC SMALL LETTER A}nna"},
        {"username": None},
        {"password": "seven77"},
        {"password": "x" * 1025},
        {"role": "owner"},
        {"role": None},
        {"all_repositories_role": "admin"},
        {"email": "no address"},
        {"email": "a@b\0"},
    ],
    ids=str,
)
def test_a_malformed_user_is_refused_without_echoing_the_input(
    service: Service, admin: dict[str, str], fields: dict[str, Any]
) -> None:
    answer = service.client.post("/api/users", json=new_user(**fields), headers=admin)
    assert answer.status_code == 422
    assert "input" not in answer.json()["detail"][0]
    assert len(service.client.get("/api/users", headers=admin).json()["users"]) == 1


def test_a_lone_surrogate_is_refused(service: Service, admin: dict[str, str]) -> None:
    body = b'{"username": "anna", "password": "correct horse", "role": "viewer", "email": "a@\\ud800"}'
    headers = {**admin, "Content-Type": "application/json"}
    assert service.client.post("/api/users", content=body, headers=headers).status_code == 422


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/users"),
        ("POST", "/api/users"),
        ("GET", "/api/users/1"),
        ("PUT", "/api/users/1"),
        ("DELETE", "/api/users/1"),
        ("PUT", "/api/users/1/repositories/1"),
        ("DELETE", "/api/users/1/repositories/1"),
        ("GET", "/api/audit"),
    ],
)
@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR])
def test_only_admins_manage_users(service: Service, method: str, path: str, role: Role) -> None:
    service.add_user("anna", role)
    bodies = {"POST": new_user(username="more"), "PUT": {"role": "viewer"}}
    answer = service.client.request(method, path, json=bodies.get(method), headers=service.log_in("anna"))
    assert (answer.status_code, key_of(answer)) == (403, "access.forbidden")
    assert service.client.request(method, path, json=bodies.get(method)).status_code == 401


@pytest.mark.parametrize("user_id", [0, -1, 999, 2**63 - 1])
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_an_unknown_user_is_not_found(service: Service, admin: dict[str, str], method: str, user_id: int) -> None:
    body = {"email": None} if method == "PUT" else None
    answer = service.client.request(method, f"/api/users/{user_id}", json=body, headers=admin)
    assert (answer.status_code, key_of(answer)) == (404, "users.not_found")


def test_an_id_too_large_for_its_column_is_refused_with_422(service: Service, admin: dict[str, str]) -> None:
    assert service.client.get(f"/api/users/{2**63}", headers=admin).status_code == 422


@pytest.mark.parametrize(
    "change", [{"role": "operator"}, {"disabled": True}, {"password": "another horse"}], ids=lambda c: next(iter(c))
)
def test_a_changed_role_or_password_and_disabling_end_sessions_immediately(
    service: Service, admin: dict[str, str], change: dict[str, Any]
) -> None:
    user_id = service.add_user("anna")
    login = service.log_in("anna")
    answer = service.client.put(f"/api/users/{user_id}", json=change, headers=admin)
    assert answer.status_code == 200
    assert service.client.get("/api/auth/me", headers=login).status_code == 401
    assert service.client.post("/api/auth/refresh", headers=login).status_code == 401


@pytest.mark.parametrize(
    "change",
    [{"email": "new@example.org"}, {"role": "viewer"}, {"disabled": False}, {"all_repositories_role": "viewer"}, {}],
)
def test_other_changes_leave_sessions_alone(service: Service, admin: dict[str, str], change: dict[str, Any]) -> None:
    user_id = service.add_user("anna")
    login = service.log_in("anna")
    assert service.client.put(f"/api/users/{user_id}", json=change, headers=admin).status_code == 200
    assert service.client.get("/probe/signed-in", headers=login).status_code == 200


def test_only_submitted_fields_change_and_null_clears_optional_ones(service: Service, admin: dict[str, str]) -> None:
    user_id = service.add_user("anna", email="a@example.org", all_repositories_role=Role.VIEWER)
    path = f"/api/users/{user_id}"
    before = service.client.get(path, headers=admin).json()
    after = service.client.put(path, json={"role": "operator"}, headers=admin).json()
    assert {name for name in before if before[name] != after[name]} == {"role", "updated_at"}
    after = service.client.put(path, json={"email": None, "all_repositories_role": None}, headers=admin).json()
    assert (after["email"], after["all_repositories_role"], after["role"]) == (None, None, "operator")
    after = service.client.put(path, json={"role": None, "disabled": None}, headers=admin).json()
    assert (after["role"], after["disabled"]) == ("operator", False)


def test_a_password_set_by_an_admin_must_be_changed_unless_the_admin_waives_it(
    service: Service, admin: dict[str, str]
) -> None:
    user_id = service.add_user("anna")
    service.client.put(f"/api/users/{user_id}", json={"password": "another horse"}, headers=admin)
    assert service.try_login("anna", "another horse").json()["must_change_password"] is True
    body = {"password": "a third horse", "must_change_password": False}
    service.client.put(f"/api/users/{user_id}", json=body, headers=admin)
    assert service.try_login("anna", "a third horse").json()["must_change_password"] is False


def test_an_admin_who_sets_their_own_password_need_not_change_it(service: Service, admin: dict[str, str]) -> None:
    user_id = service.client.get("/api/auth/me", headers=admin).json()["id"]
    service.client.put(f"/api/users/{user_id}", json={"password": "another horse"}, headers=admin)
    assert service.try_login("root", "another horse").json()["must_change_password"] is False


@pytest.mark.parametrize(
    "change", [{"role": "operator"}, {"disabled": True}, None], ids=["demote", "disable", "remove"]
)
def test_the_last_admin_cannot_be_demoted_disabled_or_removed(
    service: Service, admin: dict[str, str], change: dict[str, Any] | None
) -> None:
    disabled = service.add_user("former", Role.ADMIN)
    service.client.put(f"/api/users/{disabled}", json={"disabled": True}, headers=admin)
    user_id = service.client.get("/api/auth/me", headers=admin).json()["id"]
    path = f"/api/users/{user_id}"
    answer = (
        service.client.delete(path, headers=admin)
        if change is None
        else service.client.put(path, json=change, headers=admin)
    )
    assert (answer.status_code, key_of(answer)) == (409, "users.last_admin")
    assert service.client.get("/probe/admin", headers=admin).status_code == 200
    assert service.client.delete(f"/api/users/{disabled}", headers=admin).status_code == 204


def test_when_two_admins_demote_each_other_one_remains(service: Service) -> None:
    for round_number in range(5):
        names = [f"{name}{round_number}" for name in ("anna", "bert")]
        ids = [service.add_user(name, Role.ADMIN) for name in names]
        logins = [service.log_in(name) for name in names]

        def demote(pair: tuple[int, dict[str, str]]) -> int:
            return service.client.put(f"/api/users/{pair[0]}", json={"role": "viewer"}, headers=pair[1]).status_code

        with ThreadPoolExecutor(2) as pool:
            codes = list(pool.map(demote, zip(ids, reversed(logins), strict=True)))
        assert 200 in codes
        assert set(codes) <= {200, 409, 401, 403}
        with service.database.writing() as session:
            admins = session.execute(select(func.count()).select_from(User).where(User.role == Role.ADMIN)).scalar_one()
            assert admins == 1
            session.execute(delete(User))


def test_removing_a_user_removes_their_sessions_tokens_and_rights(service: Service, admin: dict[str, str]) -> None:
    user_id = service.add_user("anna")
    repository_id = service.add_repository()
    service.account_token(service.log_in("anna"))
    service.client.put(f"/api/users/{user_id}/repositories/{repository_id}", json={"role": "viewer"}, headers=admin)
    assert service.client.delete(f"/api/users/{user_id}", headers=admin).status_code == 204
    assert service.client.get(f"/api/users/{user_id}", headers=admin).status_code == 404
    assert service.try_login("anna").status_code == 401
    with service.database.reading() as session:
        for table in (AccountToken, LoginSession, RepositoryRight):
            assert session.query(table).filter_by(user_id=user_id).count() == 0
    assert service.add_user("anna") != user_id


def test_every_change_of_a_user_is_in_the_audit_trail(service: Service, admin: dict[str, str]) -> None:
    user_id = service.client.post("/api/users", json=new_user(), headers=admin).json()["id"]
    service.client.put(f"/api/users/{user_id}", json={"password": "another horse", "role": "operator"}, headers=admin)
    service.client.delete(f"/api/users/{user_id}", headers=admin)
    (created,) = [entry for entry in service.entries("users.created") if entry.actor == "root"]
    (changed,) = service.entries("users.changed")
    (removed,) = service.entries("users.deleted")
    for entry in (created, changed, removed):
        assert (entry.object_type, entry.object_id, entry.outcome) == ("user", str(user_id), "ok")
    assert changed.details == {"username": "anna", "changed": {"role": "operator", "password": "changed"}}
    assert "horse" not in str(changed.details)


def test_an_account_token_is_shown_only_once_and_revoked_immediately(service: Service) -> None:
    service.add_user("anna")
    login = service.log_in("anna")
    answer = service.client.post("/api/settings/tokens", json={"name": "script"}, headers=login)
    created = answer.json()
    token = created.pop("token")
    assert answer.status_code == 201
    assert set(created) == {"id", "name", "prefix", "scope", "created_at", "expires_at", "last_used_at"}
    assert token.startswith(created["prefix"])
    listed = service.client.get("/api/settings/tokens", headers=login)
    assert listed.json() == {"tokens": [created]}
    assert token not in listed.text
    assert service.client.get("/probe/signed-in", headers=header(token)).status_code == 200
    assert service.client.delete(f"/api/settings/tokens/{created['id']}", headers=login).status_code == 204
    assert service.client.get("/probe/signed-in", headers=header(token)).status_code == 401
    assert service.client.delete(f"/api/settings/tokens/{created['id']}", headers=login).status_code == 404
    assert [len(service.entries(f"auth.token_{word}")) for word in ("created", "revoked")] == [1, 1]


def test_the_last_use_of_an_account_token_is_shown(service: Service) -> None:
    service.add_user("anna")
    login = service.log_in("anna")
    account = service.account_token(login)
    service.client.get("/probe/signed-in", headers=account)
    service.access.last_used.close()
    (listed,) = service.client.get("/api/settings/tokens", headers=login).json()["tokens"]
    assert listed["last_used_at"].endswith("+00:00")


@pytest.mark.parametrize("name", ["", "x" * 101, "a\0b"])
def test_an_invalid_token_name_is_refused(service: Service, name: str) -> None:
    service.add_user("anna")
    answer = service.client.post("/api/settings/tokens", json={"name": name}, headers=service.log_in("anna"))
    assert answer.status_code == 422
