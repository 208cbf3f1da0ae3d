"""Every route can be answered in one visit to a thread."""

from fastapi.routing import APIRoute

from holdfast.api.prepared import PreparedRoute
from tests.architecture.composed import composed_app


def test_every_route_can_be_prepared() -> None:
    """A dependency that looks something up is asynchronous; an asynchronous route asks for no transaction."""
    routes = [route for route in composed_app().router.routes if isinstance(route, APIRoute)]
    assert routes
    for route in routes:
        PreparedRoute(route)
