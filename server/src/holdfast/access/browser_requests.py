"""Recognise requests of the web UI, and read and write its cookie."""

from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from holdfast.errors import Forbidden
from holdfast.settings import Settings

HEADER = "X-Holdfast-Web"
NAME = "holdfast_refresh"
SECURE_NAME = "__Secure-holdfast_refresh"
PATH = "/api/auth"


def is_browser(request: Request) -> bool:
    return HEADER in request.headers


def require_same_origin(request: Request) -> None:
    """Raise Forbidden unless the request was made by a page of this service."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    same_site = site is None or site == "same-origin"
    same_host = origin is None or urlsplit(origin).netloc == request.headers.get("host", "")
    if HEADER not in request.headers or (site is None and origin is None) or not same_site or not same_host:
        raise Forbidden(
            "auth.other_origin", "A browser's session is refreshed and ended by the service's own pages only."
        )


def read_cookie(request: Request) -> str | None:
    return request.cookies.get(SECURE_NAME if _is_secure(request) else NAME)


def set_cookie(request: Request, response: Response, cookie: str, settings: Settings) -> None:
    secure = _is_secure(request)
    response.set_cookie(
        SECURE_NAME if secure else NAME,
        cookie,
        max_age=settings.session_idle_days * 86_400,
        path=PATH,
        secure=secure,
        httponly=True,
        samesite="strict",
    )


def clear_cookie(request: Request, response: Response) -> None:
    secure = _is_secure(request)
    name = SECURE_NAME if secure else NAME
    response.delete_cookie(name, path=PATH, secure=secure, httponly=True, samesite="strict")


def _is_secure(request: Request) -> bool:
    """Whether the connection uses TLS, even if a proxy terminates it.

    The page's origin shows that: the browser sets this header, and scripts cannot.
    """
    origin = request.headers.get("origin", "")
    return request.url.scheme == "https" or origin.startswith("https://")
