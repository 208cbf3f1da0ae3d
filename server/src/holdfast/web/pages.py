"""Answers every path that is not the API's with the web UI."""

import secrets

from fastapi import FastAPI
from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from holdfast.web.built import ASSETS, Built

API = ("api", "health", "agent", "metrics", "dav")
NONCE = "__NONCE__"
POLICY = (
    "default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self' 'nonce-{nonce}'; "
    "img-src 'self' blob: data:; font-src 'self'; connect-src 'self'; manifest-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
FOREVER = "public, max-age=31536000, immutable"
A_DAY = "public, max-age=86400"
NOT_BUILT = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Holdfast</title></head>
<body>
<h1>Holdfast is running. Its web pages have not been built.</h1>
<p>Everything else works: the command line (<code>holdfast --help</code>) and the API, described at
<a href="/api/docs">/api/docs</a>.</p>
<p>To build the pages, run <code>make web</code> in the source tree and reload this page.</p>
</body>
</html>
"""


class PagePath(Convertor[str]):
    """Any path outside the API; unknown API paths remain 404s of the API."""

    regex = f"(?!(?:{'|'.join(API)})(?:/|$)).*"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("page", PagePath())


def install(app: FastAPI, built: Built | None = None) -> None:
    files = built or Built()

    async def page(request: Request) -> Response:
        name = request.url.path.lstrip("/")
        found = files.find(name, request.headers.get("accept-encoding", "")) if name else None
        if found is not None:
            headers = {"Cache-Control": FOREVER if name.startswith(ASSETS) else A_DAY, "Vary": "Accept-Encoding"}
            if found.encoding is not None:
                headers["Content-Encoding"] = found.encoding
            headers["Content-Security-Policy"] = POLICY.format(nonce=secrets.token_urlsafe(16))
            return Response(found.body, media_type=found.media_type, headers=headers)
        if name.startswith(ASSETS):
            return Response("Not found.", status_code=404, media_type="text/plain")
        return _page(files.page())

    app.router.routes.append(Route("/{path:page}", page, include_in_schema=False))


def _page(built: str | None) -> Response:
    if built is None:
        return HTMLResponse(
            NOT_BUILT, headers={"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'"}
        )
    nonce = secrets.token_urlsafe(16)
    headers = {
        "Content-Security-Policy": POLICY.format(nonce=nonce),
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cache-Control": "no-store",
    }
    return HTMLResponse(built.replace(NONCE, nonce), headers=headers)
