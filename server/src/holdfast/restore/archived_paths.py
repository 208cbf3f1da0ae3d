"""Paths as clients send them."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from backup_jobs.paths import Json, ancestors, for_engine, from_json
from holdfast.restore import errors

if TYPE_CHECKING:
    from holdfast.restore.schemas import RestoreParams


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
    """The paths without those below another one: the engine would report them as never matched."""
    given = set(paths)
    return [path for path in paths if not any(ancestor in given for ancestor in ancestors(path))]


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


def without(params: "RestoreParams") -> tuple[str, ...]:
    """The folders that a restore leaves out because the requesting user may not read them, for the engine."""
    return tuple(for_engine(from_json(name)) for name in params.without or ())
