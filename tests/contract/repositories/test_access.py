"""GET /api/repositories/{id}/access"""

from typing import Any

from tests.contract.fields import error_of
from tests.contract.stores import both_stores
from tests.support.running import Running


@both_stores
def test_every_user_is_listed_with_their_role_and_its_reason(running: Running) -> None:
    repository, other = running.scratch, running.new_repository()
    users = {
        "everywhere": running.new_user("operator", all_repositories_role="viewer"),
        "more here": running.new_user("operator", all_repositories_role="viewer"),
        "limited": running.new_user("viewer"),
        "elsewhere": running.new_user("operator"),
        "disabled": running.new_user("operator", all_repositories_role="operator"),
        "admin": running.new_user("admin"),
    }
    for name, place in (("more here", repository), ("limited", repository), ("elsewhere", other)):
        path = f"/api/users/{users[name]['id']}/repositories/{place['id']}"
        assert running.admin.put(path, json={"role": "operator"}).status_code == 200
    running.admin.put(f"/api/users/{users['disabled']['id']}", json={"disabled": True})

    found = {user["user_id"]: user for user in all_pages(running, repository["id"])}

    assert {name: (found[user["id"]]["role"], found[user["id"]]["reason"]) for name, user in users.items()} == {
        "everywhere": ("viewer", "all_repositories"),
        "more here": ("operator", "repository"),
        "limited": ("viewer", "repository"),
        "elsewhere": (None, "none"),
        "disabled": (None, "disabled"),
        "admin": ("admin", "admin"),
    }
    assert found[users["limited"]["id"]] == {
        "user_id": users["limited"]["id"],
        "username": users["limited"]["username"],
        "role": "viewer",
        "reason": "repository",
        "global_role": "viewer",
        "all_repositories_role": None,
        "repository_role": "operator",
    }
    for user in (users["everywhere"], users["limited"]):
        acting = running.client_of(user).get(f"/api/repositories/{repository['id']}")
        assert acting.status_code == 200, "the listed role is the one that counts"


def test_only_an_admin_may_list_who_has_access(running: Running) -> None:
    path = f"/api/repositories/{running.scratch['id']}/access"

    assert running.client_with_right(running.scratch, "operator").get(path).status_code == 403
    assert error_of(running.stranger.get(path)) == (404, "repository.not_found")
    assert error_of(running.admin.get("/api/repositories/7654321/access")) == (404, "repository.not_found")
    assert error_of(running.admin.get(path, params={"cursor": "x"})) == (422, "paging.bad_cursor")
    assert running.admin.get(path, params={"limit": 0}).status_code == 422


def all_pages(running: Running, repository_id: int) -> list[dict[str, Any]]:
    """Return all users, read in pages of two, after checking that none is listed twice."""
    found: list[dict[str, Any]] = []
    query: dict[str, Any] = {"limit": 2}
    while True:
        page = running.admin.get(f"/api/repositories/{repository_id}/access", params=query).json()
        assert len(page["users"]) <= 2
        found += page["users"]
        if page["next_cursor"] is None:
            break
        query["cursor"] = page["next_cursor"]
    assert len({user["user_id"] for user in found}) == len(found)
    return found
