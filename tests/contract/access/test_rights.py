import pytest

from holdfast.access.roles import Role
from tests.contract.access.application import Service, key_of

VIEW, OPERATE = "viewer", "operator"


@pytest.fixture
def admin(service: Service) -> dict[str, str]:
    service.add_user("root", Role.ADMIN)
    return service.log_in("root")


def test_a_new_user_sees_no_repository(service: Service) -> None:
    repository_id = service.add_repository()
    service.add_user("anna", Role.OPERATOR)
    login = service.log_in("anna")
    assert service.client.get("/probe/repositories", headers=login).json() == {"visible": []}
    answer = service.client.get(f"/probe/repositories/{repository_id}/viewer", headers=login)
    assert (answer.status_code, key_of(answer)) == (404, "repository.not_found")


@pytest.mark.parametrize(
    ("role", "all_repositories", "given", "may_view", "may_operate"),
    [
        (Role.VIEWER, None, None, 404, 404),
        (Role.VIEWER, None, VIEW, 200, 403),
        (Role.VIEWER, None, OPERATE, 200, 403),
        (Role.VIEWER, Role.VIEWER, None, 200, 403),
        (Role.VIEWER, Role.OPERATOR, OPERATE, 200, 403),
        (Role.OPERATOR, None, None, 404, 404),
        (Role.OPERATOR, None, VIEW, 200, 403),
        (Role.OPERATOR, None, OPERATE, 200, 200),
        (Role.OPERATOR, Role.VIEWER, None, 200, 403),
        (Role.OPERATOR, Role.VIEWER, OPERATE, 200, 200),
        (Role.OPERATOR, Role.OPERATOR, VIEW, 200, 200),
        (Role.ADMIN, None, None, 200, 200),
    ],
)
def test_the_stronger_right_applies_but_never_exceeds_the_global_role(
    service: Service,
    admin: dict[str, str],
    role: Role,
    all_repositories: Role | None,
    given: str | None,
    may_view: int,
    may_operate: int,
) -> None:
    repository_id, other = service.add_repository(), service.add_repository()
    user_id = service.add_user("anna", role, all_repositories_role=all_repositories)
    login = service.log_in("anna")
    if given:
        path = f"/api/users/{user_id}/repositories/{repository_id}"
        answer = service.client.put(path, json={"role": given}, headers=admin)
        assert answer.json()["repositories"] == [{"repository_id": repository_id, "role": given}]
    for wanted, expected in ((VIEW, may_view), (OPERATE, may_operate)):
        answer = service.client.get(f"/probe/repositories/{repository_id}/{wanted}", headers=login)
        assert answer.status_code == expected
        if expected == 403:
            assert key_of(answer) == "access.forbidden"
    sees_all = role is Role.ADMIN or all_repositories is not None
    visible = service.client.get("/probe/repositories", headers=login).json()["visible"]
    assert visible == (None if sees_all else [repository_id] if given else [])
    other_code = service.client.get(f"/probe/repositories/{other}/viewer", headers=login).status_code
    assert other_code == (200 if sees_all else 404)


def test_replacing_or_removing_a_right_takes_effect_immediately(service: Service, admin: dict[str, str]) -> None:
    repository_id = service.add_repository()
    user_id = service.add_user("anna", Role.OPERATOR)
    login = service.log_in("anna")
    right, act = f"/api/users/{user_id}/repositories/{repository_id}", f"/probe/repositories/{repository_id}/operator"
    service.client.put(right, json={"role": OPERATE}, headers=admin)
    assert service.client.get(act, headers=login).status_code == 200
    service.client.put(right, json={"role": VIEW}, headers=admin)
    assert service.client.get(act, headers=login).status_code == 403
    assert service.client.delete(right, headers=admin).status_code == 204
    assert service.client.get(act, headers=login).status_code == 404
    answer = service.client.delete(right, headers=admin)
    assert (answer.status_code, key_of(answer)) == (404, "users.right_not_found")
    assert [len(service.entries(f"users.right_{word}")) for word in ("given", "taken")] == [2, 1]


def test_granting_a_right_on_a_missing_repository_or_user_returns_404(service: Service, admin: dict[str, str]) -> None:
    user_id = service.add_user("anna")
    repository_id = service.add_repository()
    answer = service.client.put(f"/api/users/{user_id}/repositories/999", json={"role": VIEW}, headers=admin)
    assert (answer.status_code, key_of(answer)) == (404, "repository.not_found")
    answer = service.client.put(f"/api/users/999/repositories/{repository_id}", json={"role": VIEW}, headers=admin)
    assert (answer.status_code, key_of(answer)) == (404, "users.not_found")


@pytest.mark.parametrize("role", ["admin", "owner", None, 1])
def test_a_right_on_one_repository_cannot_be_admin(service: Service, admin: dict[str, str], role: object) -> None:
    user_id, repository_id = service.add_user("anna"), service.add_repository()
    path = f"/api/users/{user_id}/repositories/{repository_id}"
    assert service.client.put(path, json={"role": role}, headers=admin).status_code == 422


def test_an_account_token_has_the_current_rights_of_its_user(service: Service, admin: dict[str, str]) -> None:
    repository_id = service.add_repository()
    user_id = service.add_user("anna", Role.OPERATOR, all_repositories_role=Role.OPERATOR)
    account = service.account_token(service.log_in("anna"), scope="operate")
    path = f"/probe/repositories/{repository_id}/operator"
    assert service.client.get(path, headers=account).status_code == 200
    service.client.put(f"/api/users/{user_id}", json={"role": "viewer"}, headers=admin)
    assert service.client.get(path, headers=account).status_code == 403
