#!/usr/bin/env python3
"""Write the OpenAPI document from which the web UI's types are generated: requests and successful responses only.

    tools/api_document.py [--check]

With --check nothing is written; the exit code is 1 if the committed document differs.
"""

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "web" / "schema" / "openapi.json"
METHODS = ("get", "put", "post", "delete", "patch")


def document() -> str:
    sys.path.insert(0, str(ROOT))
    from tests.architecture.composed import composed_app

    return trimmed(composed_app().openapi())


def trimmed(whole: dict[str, Any]) -> str:
    """Remove what the types do not need: error responses (which all have the same shape), descriptions, and agent
    routes.
    """
    paths = {
        path: {method: _operation(item[method]) for method in METHODS if method in item}
        for path, item in whole["paths"].items()
        if not path.startswith(("/api/agents/", "/agent/"))
    }
    schemas = whole["components"]["schemas"]
    used: set[str] = set()
    _collect(paths, schemas, used)
    kept = {name: _plain(schemas[name]) for name in sorted(used | {"ErrorBody", "ErrorDetail"})}
    short = {"openapi": whole["openapi"], "info": {"title": "Holdfast", "version": "0"}, "paths": paths}
    return json.dumps({**short, "components": {"schemas": kept}}, indent=1, sort_keys=True) + "\n"


def _operation(operation: dict[str, Any]) -> dict[str, Any]:
    kept = {name: operation[name] for name in ("parameters", "requestBody") if name in operation}
    kept["responses"] = {code: answer for code, answer in operation["responses"].items() if code.startswith("2")}
    plain: dict[str, Any] = _plain(kept)
    return plain


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: _plain(part)
            for name, part in value.items()
            if not (name in ("description", "title", "examples") and isinstance(part, (str, list)))
            or _is_answer(value, name)
        }
    return [_plain(part) for part in value] if isinstance(value, list) else value


def _is_answer(value: dict[str, Any], name: str) -> bool:
    """Whether this is the description of a response, where OpenAPI requires one."""
    return name == "description" and not value.keys() - {"description", "content", "headers"}


def _collect(value: Any, schemas: dict[str, Any], used: set[str]) -> None:
    if isinstance(value, list):
        for part in value:
            _collect(part, schemas, used)
    elif isinstance(value, dict):
        name = str(value.get("$ref", "")).rpartition("/")[2]
        if name and name not in used:
            used.add(name)
            _collect(schemas[name], schemas, used)
        for part in value.values():
            _collect(part, schemas, used)


def main() -> int:
    made = document()
    if "--check" in sys.argv[1:]:
        if DOCUMENT.read_text() == made:
            return 0
        print("web/schema/openapi.json is not the API's document any more: run `make types`.", file=sys.stderr)
        return 1
    DOCUMENT.write_text(made)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
