"""A prepared route responds like the framework's own handler, with fewer switches to threads."""

import threading
from collections.abc import Iterator
from typing import Annotated, Any

import pytest
from fastapi import BackgroundTasks, Body, Depends, FastAPI, Form, Header, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from holdfast.api.dispatcher import Dispatcher
from holdfast.api.prepared import NotPrepared, PreparedRoute

trail: list[str] = []


class Refused(Exception):
    pass


class Item(BaseModel):
    name: str = Field(max_length=5)
    size: int = 0
    note: str | None = None


async def guard(request: Request) -> str:
    if "x-stranger" in request.headers:
        raise Refused
    return "known"


async def number(n: Annotated[int, Query(ge=1)] = 7) -> int:
    return n


async def first(n: Annotated[int, Depends(number)]) -> int:
    return n


async def second(n: Annotated[int, Depends(number)]) -> int:
    return n + 1


def opened() -> Iterator[list[str]]:
    trail.append(f"open {threading.get_ident()}")
    try:
        yield trail
    except ValueError:
        trail.append("undone")
        raise
    trail.append(f"close {threading.get_ident()}")


Opened = Annotated[list[str], Depends(opened, scope="function")]
Guarded = Annotated[str, Depends(guard)]


def application() -> FastAPI:
    app = FastAPI(redirect_slashes=False)

    @app.get("/things/{thing_id}")
    def thing(
        thing_id: int,
        who: Guarded,
        opened: Opened,
        word: list[str] | None = Query(None),
        limit: Annotated[int, Query(le=10)] = 5,
        x_tag: Annotated[str | None, Header()] = None,
    ) -> dict[str, Any]:
        opened.append(f"run {threading.get_ident()}")
        return {"id": thing_id, "who": who, "word": word, "limit": limit, "tag": x_tag}

    @app.post("/items", status_code=201, response_model_exclude_none=True)
    def add(body: Item, _who: Guarded, response: Response) -> Item:
        response.headers["X-Made"] = "yes"
        return body

    @app.put("/items", status_code=202)
    async def put(body: Annotated[Item, Body(embed=True)], response: Response) -> Item:
        response.status_code = 203
        return body

    @app.post("/form")
    async def form(
        name: Annotated[str, Form(max_length=3)], other: Annotated[str | None, Form()] = None
    ) -> list[str | None]:
        return [name, other]

    @app.get("/shared")
    async def shared(a: Annotated[int, Depends(first)], b: Annotated[int, Depends(second)]) -> dict[str, int]:
        return {"a": a, "b": b}

    @app.delete("/items/{name}", status_code=204)
    def remove(name: str) -> None:
        trail.append(name)

    @app.get("/fails")
    def fails(_opened: Opened) -> None:
        raise ValueError("broken")

    @app.get("/wrong", response_model=Item)
    async def wrong() -> Any:
        return {"name": "much too long"}

    @app.get("/plain", response_class=JSONResponse)
    async def plain() -> Any:
        return {"a": [1, None]}

    @app.get("/own")
    def own() -> Response:
        return Response(b"bytes", 418, {"X-Own": "1"}, media_type="text/plain")

    async def refused(_request: Request, _error: Exception) -> Response:
        return JSONResponse({"refused": True}, 401)

    async def invalid(_request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return JSONResponse({"errors": [{**one, "ctx": str(one.get("ctx"))} for one in error.errors()]}, 422)

    async def http(_request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return JSONResponse({"http": error.status_code}, error.status_code, headers=error.headers)

    async def unexpected(_request: Request, error: Exception) -> Response:
        return JSONResponse({"unexpected": type(error).__name__}, 500)

    app.add_exception_handler(Refused, refused)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(Exception, unexpected)
    return app


class Fronted:
    def __init__(self, app: FastAPI) -> None:
        self._app, self._front = app, Dispatcher(app, app)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        scope["app"] = self._app
        await self._front(scope, receive, send)


JSON = {"content-type": "application/json"}
REQUESTS: list[tuple[str, str, dict[str, Any]]] = [
    ("GET", "/things/3", {}),
    ("HEAD", "/things/3", {}),
    ("GET", "/things/3?limit=2&word=a&word=b", {"headers": {"x-tag": "t"}}),
    ("GET", "/things/x?limit=99", {}),
    ("GET", "/things/x?limit=99", {"headers": {"x-stranger": "1"}}),
    ("POST", "/things/3", {}),
    ("PATCH", "/items", {}),
    ("GET", "/nothing", {}),
    ("GET", "/things/3/", {}),
    ("POST", "/items", {"json": {"name": "abc"}}),
    ("POST", "/items", {"json": {"name": "abc", "note": "n", "size": "4"}}),
    ("POST", "/items", {"json": {"name": "much too long"}}),
    ("POST", "/items", {"json": {"name": "much too long"}, "headers": {"x-stranger": "1"}}),
    ("POST", "/items", {"content": b"{broken", "headers": JSON}),
    ("POST", "/items", {"content": b"{broken", "headers": {**JSON, "x-stranger": "1"}}),
    ("POST", "/items", {"content": b'{"name": "a"}', "headers": {"content-type": "application/x+json; charset=utf-8"}}),
    ("POST", "/items", {"content": b'{"name": "a"}', "headers": {"content-type": "text/plain"}}),
    ("POST", "/items", {"content": b'{"name": "a"}'}),
    ("POST", "/items", {"content": b"\xff\xfe", "headers": JSON}),
    ("POST", "/items", {}),
    ("PUT", "/items", {"json": {"body": {"name": "a"}}}),
    ("PUT", "/items", {"json": {"name": "a"}}),
    ("POST", "/form", {"data": {"name": "abc", "other": ""}}),
    ("POST", "/form", {"data": {"name": "abcd"}}),
    ("POST", "/form", {"files": {"name": ("a", b"content")}}),
    ("POST", "/form", {"content": b"--x", "headers": {"content-type": "multipart/form-data; boundary=y"}}),
    ("GET", "/shared", {}),
    ("GET", "/shared?n=3", {}),
    ("GET", "/shared?n=0", {}),
    ("GET", "/shared?n=", {}),
    ("DELETE", "/items/a", {}),
    ("GET", "/fails", {}),
    ("GET", "/wrong", {}),
    ("GET", "/plain", {}),
    ("GET", "/own", {}),
    ("GET", "/openapi.json", {}),
]


@pytest.mark.parametrize(("method", "path", "options"), REQUESTS)
def test_a_prepared_route_responds_as_the_framework_does(method: str, path: str, options: dict[str, Any]) -> None:
    app = application()
    theirs = TestClient(app, raise_server_exceptions=False).request(method, path, **options)
    ours = TestClient(Fronted(app), raise_server_exceptions=False).request(method, path, **options)
    assert (ours.status_code, ours.content) == (theirs.status_code, theirs.content)
    assert sorted(ours.headers.multi_items()) == sorted(theirs.headers.multi_items())


def test_a_route_and_its_transaction_share_one_thread() -> None:
    trail.clear()
    TestClient(Fronted(application())).get("/things/3")
    assert [entry.split()[0] for entry in trail] == ["open", "run", "close"]
    assert len({entry.split()[1] for entry in trail}) == 1
    assert trail[0].split()[1] != str(threading.get_ident())


def test_a_transaction_is_undone_if_its_route_fails() -> None:
    trail.clear()
    answer = TestClient(Fronted(application()), raise_server_exceptions=False).get("/fails")
    assert answer.json() == {"unexpected": "ValueError"}
    assert trail[1:] == ["undone"]


def test_an_unexpected_error_reaches_the_server_after_the_response() -> None:
    with pytest.raises(ValueError, match="broken"):
        TestClient(Fronted(application())).get("/fails")


def test_an_unsupported_route_is_refused_when_it_is_prepared() -> None:
    app = FastAPI()

    @app.get("/later")
    def later(tasks: BackgroundTasks) -> None:
        del tasks

    @app.get("/mixed")
    async def mixed(_opened: Opened) -> None: ...

    for route in app.routes:
        if isinstance(route, APIRoute):
            with pytest.raises(NotPrepared):
                PreparedRoute(route)
