"""The table finds the same route as the framework's walk over all routes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Mount, Route

from holdfast.api.route_table import RouteTable, walk
from tests.architecture.composed import composed_app

METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "get", "BREW"]
ODD = ["", ".", "..", "1", "a b", "%2F", "{id}", "ä", "x\n", "\n", "live", "queue", "repositories", "0" * 300]


async def nothing(_request: Request) -> Response:
    return Response()


def agrees(routes: list[BaseRoute], table: RouteTable, method: str, path: str) -> None:
    match, route, params = walk(routes, method, path)
    found = table.find(method, path)
    if match is Match.NONE:
        assert found is None, (method, path)
        return
    assert found is not None, (method, path)
    assert found.route is route
    assert found.path_params == params
    assert found.takes_method is (match is Match.FULL)


OURS = list(composed_app().router.routes)
TABLE_OF_OURS = RouteTable(OURS)
TEMPLATES = sorted({route.path for route in OURS if isinstance(route, Route)})
SEGMENTS = sorted({segment for template in TEMPLATES for segment in template.split("/")})
segments = st.one_of(st.sampled_from(SEGMENTS), st.sampled_from(ODD), st.text(alphabet="ab1{}%.é \n", max_size=4))


@st.composite
def near_paths(draw: st.DrawFn) -> str:
    """The path of a route with values for its parameters, sometimes with a segment added, removed or replaced."""
    parts = [draw(segments) if "{" in part else part for part in draw(st.sampled_from(TEMPLATES)).split("/")]
    for _ in range(draw(st.integers(0, 2))):
        place = draw(st.integers(0, len(parts) - 1))
        parts[place : place + draw(st.integers(0, 1))] = draw(st.lists(segments, max_size=1))
        parts = parts or [""]
    return "/".join(parts)


@given(st.sampled_from(METHODS), near_paths())
def test_the_table_agrees_on_paths_similar_to_those_of_the_services_routes(method: str, path: str) -> None:
    agrees(OURS, TABLE_OF_OURS, method, path)


@given(st.sampled_from(METHODS), st.lists(segments, max_size=8).map("/".join))
def test_the_table_agrees_on_any_path(method: str, path: str) -> None:
    agrees(OURS, TABLE_OF_OURS, method, path)


def test_the_table_agrees_on_every_route_with_every_method() -> None:
    for template in TEMPLATES:
        for method in METHODS:
            agrees(OURS, TABLE_OF_OURS, method, template)
            agrees(OURS, TABLE_OF_OURS, method, template + "/")
            agrees(OURS, TABLE_OF_OURS, method, template + "\n")


MIXED = [
    "/a/{x}", "/a/b", "/{x}/b", "/a/{x}.json", "/a/{n:int}", "/{rest:path}", "/a/{x}/c", "/a/{x}/{y}", "/a/b/c",
    "/", "/a", "/a/", "/{x}",
]  # fmt: skip
small = st.lists(st.sampled_from(["a", "b", "c", "b.json", "7", ""]), max_size=4).map(
    lambda parts: "/" + "/".join(parts)
)


@given(st.lists(st.tuples(st.sampled_from(MIXED), st.sampled_from(["GET", "POST"])), max_size=8), small)
def test_the_table_agrees_regardless_of_the_routes_and_their_order(wanted: list[tuple[str, str]], path: str) -> None:
    routes: list[BaseRoute] = [Route(template, nothing, methods=[method]) for template, method in wanted]
    for method in ("GET", "HEAD", "POST", "PUT"):
        agrees(routes, RouteTable(routes), method, path)


def test_a_route_without_its_own_pattern_is_refused_when_the_table_is_created() -> None:
    with pytest.raises(TypeError):
        RouteTable([Mount("/static", routes=[])])
