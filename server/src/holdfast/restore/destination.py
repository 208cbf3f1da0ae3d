"""The folder that a restore writes to: parsed and checked before the restore is queued."""

from backup_jobs.paths import Json, from_json
from backup_jobs.restore import private_tree
from holdfast.errors import Unprocessable
from holdfast.restore import errors


def inspect(path: bytes) -> None:
    """Raise Unprocessable if the path cannot become the destination, as far as can be seen without writing."""
    try:
        private_tree.inspect(path)
    except private_tree.DestinationUnusable as error:
        raise Unprocessable(error.key, str(error)) from error


def normal_destination(value: Json) -> bytes:
    """Return a destination as a normal absolute path. Raise Unprocessable if it is not one."""
    try:
        raw = from_json(value)
    except ValueError as error:
        raise errors.bad_destination() from error
    parts = raw.split(b"/")
    if not raw.startswith(b"/") or b".." in parts:
        raise errors.bad_destination()
    return b"/" + b"/".join(part for part in parts if part not in (b"", b"."))
