"""A route that is built lazily behaves like any other."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from holdfast.api.lazy_route import LazyRoute

built: list[str] = []


class Noted(LazyRoute):
    def get_route_handler(self) -> Any:
        built.append(self.path)
        return super().get_route_handler()


def word(text: str = "none") -> str:
    return text


def application(route_class: type[APIRoute]) -> FastAPI:
    router = APIRouter(prefix="/things", tags=["things"], route_class=route_class)

    @router.get("/{thing_id}", summary="One thing")
    def thing(thing_id: int, text: Annotated[str, Depends(word)]) -> dict[str, int | str]:
        return {"id": thing_id, "text": text}

    @router.api_route("/", methods=["post"], status_code=201)
    async def add() -> None: ...

    add.__name__ = "another_name"

    app = FastAPI()
    app.router.routes.extend(router.routes)
    return app


def test_a_lazy_route_is_built_once_when_it_is_first_requested() -> None:
    built.clear()
    app = application(Noted)
    route = app.router.routes[-2]
    assert isinstance(route, LazyRoute)
    assert (route.path, route.methods, built) == ("/things/{thing_id}", {"GET"}, [])
    client = TestClient(app)
    for _ in range(2):
        assert client.get("/things/3?text=a").json() == {"id": 3, "text": "a"}
    assert built == ["/things/{thing_id}"]


def test_a_lazy_route_has_the_document_and_responses_of_an_ordinary_one() -> None:
    ordinary, late = application(APIRoute), application(LazyRoute)
    assert late.openapi() == ordinary.openapi()
    for method, path in [("GET", "/things/x"), ("POST", "/things/"), ("PUT", "/things/"), ("DELETE", "/things/1")]:
        theirs, ours = TestClient(ordinary).request(method, path), TestClient(late).request(method, path)
        assert (ours.status_code, ours.content) == (theirs.status_code, theirs.content)


def test_a_missing_attribute_of_a_lazy_route_is_an_attribute_error() -> None:
    route = application(LazyRoute).router.routes[-1]
    assert not hasattr(route, "nothing_of_the_kind")
