"""Dispatches requests: finds the route in the table, runs it prepared, and turns errors into responses in one place.

The framework handles the rest: its documents, and everything that is not HTTP.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.api.prepared import PreparedRoute
from holdfast.api.route_table import RouteTable
from holdfast.errors import service_stops
from holdfast.storage.read_cache import StoreVersion


class Dispatcher:
    def __init__(self, app: FastAPI, framework: ASGIApp, version: StoreVersion | None = None) -> None:
        self._app = app
        self._version = version
        self._framework = framework
        self._routes: list[BaseRoute] = []
        self._table = RouteTable([])
        self._prepared: dict[int, PreparedRoute] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope.get("root_path"):
            await self._framework(scope, receive, send)
            return
        request = Request(scope, receive, send)
        has_begun = False

        async def noted(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            answer = await self._answer(request)
            await answer(scope, receive, noted)
        except asyncio.CancelledError:  # only a service that stops cancels requests
            if not has_begun:
                await self._refuse(request, service_stops(), send)
        except Exception as error:
            if has_begun:
                raise
            await self._refuse(request, error, send)

    async def _answer(self, request: Request) -> ASGIApp:
        scope = request.scope
        found = self._current_table().find(scope["method"], scope["path"])
        if found is None:
            raise HTTPException(status_code=404)
        route = found.route
        if not isinstance(route, APIRoute):
            if not isinstance(route, Route) or not _is_application(route.endpoint):
                return self._framework
            scope["path_params"] = found.path_params
            return route.app
        if not found.takes_method:
            raise HTTPException(status_code=405, headers={"Allow": ", ".join(route.methods or ())})
        scope["route"], scope["endpoint"], scope["path_params"] = route, route.endpoint, found.path_params
        return await self._prepare(route).answer(request)

    async def _refuse(self, request: Request, error: Exception, send: Send) -> None:
        """Respond through the error's handler. Unexpected errors are raised again for the server's log."""
        handlers: dict[Any, Any] = self._app.exception_handlers
        kind = next(kind for kind in type(error).__mro__ if kind in handlers)
        handler: Callable[[Request, Exception], Awaitable[Response]] = handlers[kind]
        try:
            refusal = await handler(request, error)
        except Exception as broken:
            if kind is Exception:
                raise
            await self._refuse(request, broken, send)
            return
        await refusal(request.scope, request.receive, send)
        if kind is Exception:
            raise error

    def _prepare(self, route: APIRoute) -> PreparedRoute:
        prepared = self._prepared.get(id(route))
        if prepared is None:
            prepared = self._prepared[id(route)] = PreparedRoute(route, self._version)
        return prepared

    def _current_table(self) -> RouteTable:
        routes = self._app.router.routes
        if len(routes) != len(self._routes):
            self._routes = list(routes)  # kept alive, so that their ids are not reused
            self._table = RouteTable(routes)
        return self._table


def _is_application(endpoint: Any) -> bool:
    """Whether a route's endpoint is an application that handles its own errors."""
    return not isinstance(endpoint, type) and not inspect.isroutine(endpoint) and callable(endpoint)
