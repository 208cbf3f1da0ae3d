"""A service that answers every request according to the OpenAPI document, with hostile content in every text."""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TIME = "2026-11-16T12:00:00+00:00"
SETTLED = {
    "next_cursor": None,
    "cursor": None,
    "has_more": False,
    "setup_operation_id": None,
    "progress_percent": 40.0,
    "verdict": "attention",
}
"""Fields whose value decides what a client does next."""


def answers(document: dict[str, Any], hostile: str, **overrides: Any) -> dict[tuple[str, str], Any]:
    """Given an OpenAPI document, return an answer for each method and path."""
    made = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            good: dict[str, Any] = next(
                (found for code, found in operation["responses"].items() if code.startswith("2")), {}
            )
            schema = good.get("content", {}).get("application/json", {}).get("schema")
            made[method.upper(), path] = (
                _value(document, schema, "", hostile, {**SETTLED, **overrides}) if schema else None
            )
    return made


def _value(document: dict[str, Any], schema: dict[str, Any], name: str, hostile: str, settled: dict[str, Any]) -> Any:
    if name in settled:
        return settled[name]
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            chosen = next(one for one in schema[several] if one.get("type") != "null")
            return _value(document, chosen, name, hostile, settled)
    if "properties" in schema:
        if name == "followups" or name == "run":
            return []
        return {
            field: _value(document, found, field, hostile, settled) for field, found in schema["properties"].items()
        }
    match schema.get("type"):
        case "array":
            return [] if name in ("followups", "run") else [_value(document, schema["items"], name, hostile, settled)]
        case "integer":
            return 3
        case "number":
            return 3.5
        case "boolean":
            return True
        case "string" if schema.get("format") == "date-time":
            return TIME
        case "string":
            return hostile
        case _:
            return {hostile: hostile, "message": hostile, "path": hostile}


@contextmanager
def serving(known: dict[tuple[str, str], Any], *, status: int = 200) -> Iterator[str]:
    """Serve the answers on loopback; yield the address."""
    patterns = [
        (method, re.compile(re.sub(r"\\{[^}]*\\}", "[^/]+", re.escape(path)) + "$"), answer)
        for (method, path), answer in sorted(known.items(), key=lambda item: item[0][1].count("{"))
    ]

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Log nothing."""

        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = self.path.partition("?")[0]
            found = [body for method, pattern, body in patterns if method == self.command and pattern.match(path)]
            content = json.dumps(found[0] if found else None).encode() if found else b""
            self.send_response(status if found else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_DELETE = answer  # noqa: N815

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
