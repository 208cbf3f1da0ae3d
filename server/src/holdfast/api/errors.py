"""Turns errors into JSON, in one place."""

from collections.abc import Awaitable, Callable
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from holdfast.errors import HoldfastError

log = structlog.get_logger("holdfast.api")

RefusalListener = Callable[[Request, HoldfastError], Awaitable[None]]
"""Called for every refused request, before its response is sent."""

STARLETTE_KEYS = {
    400: ("api.bad_request", "The request is not well-formed."),
    404: ("api.not_found", "This path does not exist."),
    405: ("api.method_not_allowed", "This path does not support that method."),
    413: ("api.body_too_large", "The body is too large."),
}


def install(app: FastAPI) -> None:
    app.add_exception_handler(HoldfastError, _known)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _starlette)
    app.add_exception_handler(Exception, _unexpected)


def error_answer(error: HoldfastError) -> JSONResponse:
    headers = {}
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if error.status == 416:
        headers["Content-Range"] = f"bytes */{error.params['size']}"
    if error.retry_after is not None:
        headers["Retry-After"] = str(error.retry_after)
    return JSONResponse({"detail": error.detail()}, status_code=error.status, headers=headers)


async def _known(request: Request, error: Exception) -> Response:
    assert isinstance(error, HoldfastError)
    for listener in getattr(request.app, "refusal_listeners", ()):
        await listener(request, error)
    return error_answer(error)


async def _invalid(_request: Request, error: Exception) -> Response:
    """Return the framework's list of errors without the input: a secret in the wrong field must not be echoed."""
    assert isinstance(error, RequestValidationError)
    fields = [
        {"loc": [_plain(part) for part in item["loc"]], "msg": item["msg"], "type": item["type"]}
        for item in error.errors()
    ]
    return JSONResponse({"detail": fields}, status_code=422)


def _plain(part: Any) -> str | int:
    return part if isinstance(part, int) else str(part).encode("utf-8", "replace").decode()


async def _starlette(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    key, message = STARLETTE_KEYS.get(error.status_code, ("api.refused", "The request was refused."))
    body = {"detail": {"key": key, "message": message, "params": {}}}
    return JSONResponse(body, status_code=error.status_code, headers=error.headers)


async def _unexpected(request: Request, error: Exception) -> Response:
    log.error("unexpected error", path=request.url.path, method=request.method, exc_info=error)
    body = {
        "detail": {
            "key": "api.internal",
            "message": "An unexpected internal error occurred; see the service's log for details.",
            "params": {"request_id": getattr(request.state, "request_id", None)},
        }
    }
    return JSONResponse(body, status_code=500)
