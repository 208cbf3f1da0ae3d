"""Every route can be served with a single switch to a thread."""

from fastapi.routing import APIRoute

from holdfast.api.prepared import PreparedRoute
from tests.architecture.composed import composed_app


def test_every_route_can_be_prepared() -> None:
    """Dependencies that only look something up are asynchronous, and asynchronous routes need no transaction."""
    routes = [route for route in composed_app().router.routes if isinstance(route, APIRoute)]
    assert routes
    for route in routes:
        PreparedRoute(route)
