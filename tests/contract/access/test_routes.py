"""Rules for all routes of access: a guard, a summary and documented errors."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fastapi.routing import APIRoute

from holdfast.access.caller import public
from holdfast.access.feature import ROUTERS
from tests.contract.access.application import Service, key_of

ROUTES = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]


def calls(dependant: Any) -> Iterator[Any]:
    yield dependant.call
    for below in dependant.dependencies:
        yield from calls(below)


def guards(route: APIRoute) -> set[Any]:
    return {call for call in calls(route.dependant) if getattr(call, "is_guard", False)}


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{min(route.methods)} {route.path}")
def test_every_route_has_a_guard_a_summary_and_a_response_schema(route: APIRoute) -> None:
    assert guards(route)
    assert route.summary
    has_shape = any("schema" in content for content in route.responses.get(200, {}).get("content", {}).values())
    assert route.response_model is not None or route.status_code == 204 or has_shape


def test_only_the_login_and_invitations_are_public() -> None:
    assert {route.path for route in ROUTES if public in guards(route)} == {
        "/api/auth/login",
        "/api/auth/login/totp",
        "/api/auth/invitation",
        "/api/auth/invitation/accept",
    }


def test_the_routes_match_the_contract() -> None:
    assert {(method, route.path) for route in ROUTES for method in route.methods or ()} == {
        ("POST", "/api/auth/login"),
        ("POST", "/api/auth/login/totp"),
        ("POST", "/api/auth/invitation"),
        ("POST", "/api/auth/invitation/accept"),
        ("POST", "/api/users/{user_id}/invitation"),
        ("DELETE", "/api/users/{user_id}/invitation"),
        ("POST", "/api/auth/refresh"),
        ("GET", "/api/auth/me"),
        ("POST", "/api/auth/logout"),
        ("POST", "/api/auth/change-password"),
        ("POST", "/api/auth/totp/setup"),
        ("POST", "/api/auth/totp/enable"),
        ("POST", "/api/auth/totp/disable"),
        ("GET", "/api/users"),
        ("POST", "/api/users"),
        ("GET", "/api/users/{user_id}"),
        ("PUT", "/api/users/{user_id}"),
        ("DELETE", "/api/users/{user_id}"),
        ("PUT", "/api/users/{user_id}/repositories/{repository_id}"),
        ("DELETE", "/api/users/{user_id}/repositories/{repository_id}"),
        ("GET", "/api/settings/tokens"),
        ("POST", "/api/settings/tokens"),
        ("DELETE", "/api/settings/tokens/{token_id}"),
        ("GET", "/api/audit"),
        ("GET", "/api/audit/export"),
    }


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_the_api_document_shows_both_headers_and_the_errors(service: Service) -> None:
    document = service.client.get("/api/openapi.json").json()
    schemes = document["components"]["securitySchemes"]
    assert schemes["BackupBearer"]["name"] == "X-Backup-Authorization"
    assert schemes["Bearer"]["scheme"] == "bearer"
    me = document["paths"]["/api/auth/me"]["get"]
    assert {name for entry in me["security"] for name in entry} == {"BackupBearer", "Bearer"}
    assert "429" in document["paths"]["/api/auth/login"]["post"]["responses"]
    form = document["paths"]["/api/auth/login"]["post"]["requestBody"]["content"]
    assert list(form) == ["application/x-www-form-urlencoded"]


def test_a_feature_outside_the_plan_is_refused_with_the_required_plan(service: Service) -> None:
    service.add_user("anna")
    login = service.log_in("anna")
    assert service.client.get("/probe/history", headers=login).status_code == 200
    service.settings.plan = "community"
    answer = service.client.get("/probe/history", headers=login)
    assert answer.status_code == 403
    detail = answer.json()["detail"]
    assert {name: detail[name] for name in ("key", "feature", "required", "current")} == {
        "key": "plan.feature_not_available",
        "feature": "archive_history",
        "required": "pro",
        "current": "community",
    }
    assert key_of(service.client.get("/probe/history")) == "auth.credential_missing"


def test_many_simultaneous_readers_and_writers_are_all_served(service: Service) -> None:
    """With far more requests than threads, none may hold a connection while it waits for a thread."""
    service.add_user("anna")
    login = service.log_in("anna")

    def send(number: int) -> int:
        if number % 2:
            return client.get("/api/settings/tokens", headers=login).status_code
        return client.post("/probe/work/1", json={"subject": "x"}, headers=login).status_code

    with service.client as client, ThreadPoolExecutor(240) as pool:
        codes = list(pool.map(send, range(240)))
    assert codes == [200] * 240
