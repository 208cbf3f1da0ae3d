"""The HTTP application, independent of any domain."""

import warnings
from collections.abc import Callable, Iterable
from typing import Any

from fastapi import APIRouter, FastAPI
from pydantic.warnings import UnsupportedFieldAttributeWarning
from starlette.types import ASGIApp, Lifespan, Receive, Scope, Send

from holdfast.api import errors, reference
from holdfast.api.answers import add_shapes
from holdfast.api.dependencies import DATABASE
from holdfast.api.dispatcher import Dispatcher
from holdfast.api.errors import RefusalListener
from holdfast.api.headers import AnswerHeaders
from holdfast.api.limits import BodyLimit
from holdfast.api.parts import Parts

# FastAPI suppresses this warning where it builds validators itself; those of our schemas are built later.
warnings.filterwarnings("ignore", category=UnsupportedFieldAttributeWarning)


class Application(FastAPI):
    """The application. Its `parts` are the objects that routes use."""

    def __init__(self, parts: Parts, **options: Any) -> None:
        super().__init__(**options)
        self.parts = parts
        self.refusal_listeners: list[RefusalListener] = []
        self.streamed_paths: tuple[str, ...] = ()
        """Prefixes of paths whose bodies are passed on as they arrive."""
        self.steady_paths: tuple[str, ...] = ()
        """Prefixes of paths whose bodies may arrive slowly, as long as they arrive."""
        version = parts[DATABASE].version
        self._outermost: ASGIApp = AnswerHeaders(BodyLimit(Dispatcher(self, super().__call__, version)))

    def put_before(self, front: Callable[[ASGIApp], ASGIApp]) -> None:
        """Register a handler that sees each request before the framework, for requests that arrive a thousand times a
        second.
        """
        self._outermost = front(self._outermost)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"] = self
        await self._outermost(scope, receive, send)

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            add_shapes(super().openapi())
        return super().openapi()


def build_app(parts: Parts, routers: Iterable[APIRouter], version: str, lifespan: Lifespan[FastAPI]) -> Application:
    app = Application(
        parts,
        title="Holdfast",
        version=version,
        summary="Backup management for the BorgBackup engine.",
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        redirect_slashes=False,
    )
    errors.install(app)
    reference.install(app)
    for router in routers:
        # Added directly: the framework would build included routes a second time and find them by trying one after the
        # other.
        app.router.routes.extend(router.routes)
    return app
