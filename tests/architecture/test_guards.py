"""Guards deny by default: a route without a declared guard must not exist."""

from collections.abc import Iterator
from typing import Any

from fastapi.routing import APIRoute, RouteContext, iter_route_contexts

from holdfast.access.caller import public
from tests.architecture.composed import composed_app

PUBLIC = {
    ("POST", "/api/auth/login"),
    ("POST", "/api/auth/login/totp"),
    ("POST", "/api/auth/invitation"),
    ("POST", "/api/auth/invitation/accept"),
    ("POST", "/api/agents/register"),  # takes a one-time token in its body
    ("GET", "/agent/install.sh"),
    ("GET", "/agent/wheels/"),
    ("GET", "/agent/wheels/{name}"),
    ("GET", "/health/live"),
    ("GET", "/health/ready"),
}
OF_THE_PAGES = {"/{path:page}"}
"""The web UI's files, which are the same for all users, from a folder that contains nothing else."""
OF_THE_DRIVE = {"/dav", "/dav/{path:any_path}"}
"""WebDAV checks the account token itself: see tests/contract/archives/test_webdav.py."""
OF_THE_DOCUMENT = {"/api/openapi.json", "/api/docs", "/api/docs/{name}"}
"""The API document, which reveals nothing about this installation."""


def routes() -> list[RouteContext]:
    return [context for context in iter_route_contexts(composed_app().routes) if is_ours(context)]


def is_ours(context: RouteContext) -> bool:
    return isinstance(context.original_route, APIRoute)


def name_of(context: RouteContext) -> tuple[str, str]:
    methods = list(context.methods or ())
    assert len(methods) == 1
    return methods[0], str(context.path)


def calls(dependant: Any) -> Iterator[Any]:
    yield dependant.call
    for below in dependant.dependencies:
        yield from calls(below)


def guards_of(context: RouteContext) -> set[Any]:
    return {call for call in calls(context.dependant) if getattr(call, "is_guard", False)}


def test_every_route_has_a_guard() -> None:
    names = {name_of(context): guards_of(context) for context in routes()}

    assert len(names) > 40
    assert [name for name, guards in names.items() if not guards] == []


def test_only_the_listed_routes_are_public() -> None:
    assert {name_of(context) for context in routes() if public in guards_of(context)} == PUBLIC


def test_other_routes_serve_only_the_web_ui_the_api_document_and_the_drive() -> None:
    others = [context for context in iter_route_contexts(composed_app().routes) if not is_ours(context)]

    assert {context.path for context in others} == OF_THE_DOCUMENT | OF_THE_PAGES | OF_THE_DRIVE


def test_no_two_routes_have_the_same_method_and_path() -> None:
    names = [name_of(context) for context in routes()]

    assert len(names) == len(set(names))
