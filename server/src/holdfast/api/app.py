"""The HTTP application, without any domain in it."""

import uuid
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import structlog
from fastapi import APIRouter, FastAPI
from pydantic.warnings import UnsupportedFieldAttributeWarning
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Lifespan, Message, Receive, Scope, Send

from holdfast.api import errors
from holdfast.api.answers import add_shapes
from holdfast.api.limits import BodyLimit
from holdfast.settings import Settings
from holdfast.storage.session import Database

# The framework keeps this to itself where it builds a validator at once; those of schemas are built later.
warnings.filterwarnings("ignore", category=UnsupportedFieldAttributeWarning)


class RequestId:
    """Give every answer an ``X-Request-Id`` and every log line of the request the same one."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request_id = uuid.uuid4().hex
        scope.setdefault("state", {})["request_id"] = request_id

        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["X-Request-Id"] = request_id
            await send(message)

        with structlog.contextvars.bound_contextvars(request_id=request_id):
            await self.app(scope, receive, marked)


class Application(FastAPI):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._outermost: ASGIApp = super().__call__

    def put_before(self, front: Callable[[ASGIApp], ASGIApp]) -> None:
        """Let something see each request before the framework does: for what is asked a thousand times a second."""
        self._outermost = front(self._outermost)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._outermost(scope, receive, send)

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            add_shapes(super().openapi())
        return super().openapi()


def build_app(
    settings: Settings, database: Database, routers: Iterable[APIRouter], version: str, lifespan: Lifespan[FastAPI]
) -> Application:
    app = Application(
        title="Holdfast",
        version=version,
        summary="Backup management for the BorgBackup engine.",
        openapi_url="/api/openapi.json",
        docs_url="/api/docs",
        swagger_ui_oauth2_redirect_url=None,
        redoc_url=None,
        lifespan=lifespan,
        redirect_slashes=False,
    )
    app.state.settings = settings
    app.state.database = database
    app.state.refusal_listeners = []
    errors.install(app)
    app.add_middleware(BodyLimit)
    app.add_middleware(RequestId)
    for router in routers:
        app.include_router(router)
    return app
