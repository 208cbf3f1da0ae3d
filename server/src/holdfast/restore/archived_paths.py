"""Paths as clients send and get them: text where it is exact, base64 where the bytes are no text."""

from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.kit import text
from holdfast.restore import errors

Json = str | Mapping[str, str]


def from_json(value: Json) -> bytes:
    """Given a path as text or as ``{path_b64}``, return its bytes. Raise ValueError if it is no path at all."""
    raw = value.encode("utf-8") if isinstance(value, str) else text.from_exact(value["path_b64"])
    if b"\0" in raw:
        raise ValueError("a path never holds a NUL")
    return raw


def to_json(path: bytes) -> Json:
    exact = text.exact(path)
    return path.decode("utf-8") if exact is None else {"path_b64": exact}


def shown(path: bytes) -> dict[str, str]:
    """A path in an answer: always readable, and exact beside it where that is not the same."""
    exact = text.exact(path)
    return {"path": text.readable(path)} | ({"path_b64": exact} if exact is not None else {})


def inside_archive(values: Iterable[Json]) -> list[bytes]:
    """Given the wanted paths, return them as the engine stores them, each once; none at all means the whole archive.

    Raise Unprocessable for one that is not a path inside an archive.
    """
    wanted: dict[bytes, None] = {}
    for value in values:
        try:
            parts = [part for part in from_json(value).split(b"/") if part not in (b"", b".")]
        except ValueError as error:
            raise errors.bad_path() from error
        if b".." in parts:
            raise errors.bad_path()
        if not parts:
            return []
        wanted[b"/".join(parts)] = None
    return list(wanted)


def outermost(paths: list[bytes]) -> list[bytes]:
    """The paths without those that lie below another one: the engine would call them never matched."""
    given = set(paths)
    return [path for path in paths if not any(ancestor in given for ancestor in ancestors(path))]


def ancestors(path: bytes) -> Iterable[bytes]:
    """The folders above a path, nearest first."""
    while (cut := path.rfind(b"/")) > 0:
        path = path[:cut]
        yield path


def destination(value: Json) -> bytes:
    """Given a destination, return it as a normal absolute path. Raise Unprocessable if it is not one."""
    try:
        raw = from_json(value)
    except ValueError as error:
        raise errors.bad_destination() from error
    parts = raw.split(b"/")
    if not raw.startswith(b"/") or b".." in parts:
        raise errors.bad_destination()
    return b"/" + b"/".join(part for part in parts if part not in (b"", b"."))


def for_engine(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


def describe(result: Mapping[str, Any]) -> str:
    """One failed or skipped item of a result as a line of the log."""
    return f"{result['path']}: {result['reason']}"
