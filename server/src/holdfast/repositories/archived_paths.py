"""Paths inside archives, as clients send them."""

from collections.abc import Iterable
from typing import Annotated

from pydantic import Field

from backup_jobs.paths import Json, ancestors, from_json
from holdfast.errors import Unprocessable
from holdfast.kit.fields import PlainText
from holdfast.kit.schema import Closed

PathText = Annotated[str, PlainText(0, 4096)]


class ExactPath(Closed):
    """A path that is not valid UTF-8."""

    path_b64: Annotated[str, PlainText(0, 8192)] = Field(description="The bytes of the path in base64.")


PathValue = PathText | ExactPath
Paths = Annotated[list[PathValue], Field(max_length=1000)]


def inside_archive(values: Iterable[Json]) -> list[bytes]:
    """Given the wanted paths, return each once, as the engine stores it; an empty list means the whole archive.

    Raise Unprocessable for a path that is not inside an archive.
    """
    wanted: dict[bytes, None] = {}
    for value in values:
        try:
            parts = [part for part in from_json(value).split(b"/") if part not in (b"", b".")]
        except ValueError as error:
            raise bad_path() from error
        if b".." in parts:
            raise bad_path()
        if not parts:
            return []
        wanted[b"/".join(parts)] = None
    return list(wanted)


def bad_path() -> Unprocessable:
    return Unprocessable(
        "restore.bad_path", "A path inside an archive must be relative to its root and must not contain '..'."
    )


def outermost(paths: list[bytes]) -> list[bytes]:
    """Return the paths without those below another one, which the engine would report as never matched."""
    given = set(paths)
    return [path for path in paths if not any(ancestor in given for ancestor in ancestors(path))]
