"""The page that shows the OpenAPI document. All its assets come from this service, so it works offline."""

from functools import cache
from importlib.resources import files

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

PATH = "/api/docs"
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
BUNDLED = {
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
    "favicon-32x32.png": "image/png",
}
PAGE = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Holdfast API</title>
<link rel="icon" href="{PATH}/favicon-32x32.png">
<link rel="stylesheet" href="{PATH}/swagger-ui.css">
</head>
<body>
<div id="swagger-ui"></div>
<script src="{PATH}/swagger-ui-bundle.js"></script>
<script src="{PATH}/start.js"></script>
</body>
</html>
"""
START = """SwaggerUIBundle({
  url: "/api/openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  docExpansion: "none",
  validatorUrl: null,
});
"""


async def page(_request: Request) -> Response:
    return HTMLResponse(PAGE, headers={"Content-Security-Policy": CONTENT_SECURITY_POLICY})


async def asset(request: Request) -> Response:
    name = request.path_params["name"]
    if name == "start.js":
        return Response(START, media_type="text/javascript")
    if name not in BUNDLED:
        return PlainTextResponse("Not found.", status_code=404)
    return Response(_bundled(name), media_type=BUNDLED[name], headers={"Cache-Control": "public, max-age=86400"})


@cache
def _bundled(name: str) -> bytes:
    return (files("fastapi_swagger") / "resources" / name).read_bytes()


def install(app: FastAPI) -> None:
    app.router.routes.append(Route(PATH, page))
    app.router.routes.append(Route(f"{PATH}/{{name}}", asset))
