"""Archived paths: bytes internally; in messages text, plus base64 if the bytes are not valid UTF-8."""

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Any

Json = str | Mapping[str, str]


def readable(path: bytes) -> str:
    return path.decode("utf-8", "replace")


def exact(path: bytes) -> str | None:
    """The base64 form of a path that is not valid UTF-8. None for other paths: their readable form is exact."""
    try:
        path.decode("utf-8")
    except UnicodeDecodeError:
        return base64.b64encode(path).decode()
    return None


def from_exact(encoded: str) -> bytes:
    """Decode a base64 path. Raise ValueError if it is invalid."""
    try:
        return base64.b64decode(encoded, validate=True)
    except binascii.Error as error:
        raise ValueError("not valid base64") from error


def from_json(value: Json) -> bytes:
    """Decode a path given as text or as ``{path_b64}``. Raise ValueError if it is not a path."""
    raw = value.encode("utf-8") if isinstance(value, str) else from_exact(value["path_b64"])
    if b"\0" in raw:
        raise ValueError("a path never holds a NUL")
    return raw


def to_json(path: bytes) -> Json:
    encoded = exact(path)
    return path.decode("utf-8") if encoded is None else {"path_b64": encoded}


def shown(path: bytes) -> dict[str, str]:
    """A path for an answer: the readable form, plus the exact form if they differ."""
    encoded = exact(path)
    return {"path": readable(path)} | ({"path_b64": encoded} if encoded is not None else {})


def ancestors(path: bytes) -> Iterable[bytes]:
    """The folders above a path, nearest first."""
    while (cut := path.rfind(b"/")) > 0:
        path = path[:cut]
        yield path


def for_engine(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


def describe(result: Mapping[str, Any]) -> str:
    """A failed or skipped item of a result as a log line."""
    return f"{result['path']}: {result['reason']}"
