"""Paths in answers and requests: readable, and also exact if the readable form is not."""

from datetime import UTC, datetime, timedelta

from backup_jobs import paths as text
from holdfast.errors import Unprocessable

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_fields(path: bytes) -> dict[str, str | None]:
    return {"path": text.readable(path), "path_b64": text.exact(path)}


def from_request(path: str | None, path_b64: str | None) -> bytes:
    """Return the requested path as it is written in archives: without a slash at either end. Raise Unprocessable."""
    if path_b64 is not None:
        try:
            wanted = text.from_exact(path_b64)
        except ValueError as error:
            raise Unprocessable("archives.bad_path", "The path_b64 is not valid base64.") from error
    else:
        wanted = (path or "").encode("utf-8", "surrogateescape")
    if b"\0" in wanted or len(wanted) > 65536:
        raise Unprocessable("archives.bad_path", "The path is not a valid file path.")
    return wanted.strip(b"/")


def from_fields(path: str | None, path_b64: str | None) -> bytes:
    """Return the bytes of a path from its two forms in an answer."""
    return text.from_exact(path_b64) if path_b64 is not None else (path or "").encode()


def file_time(microseconds: int) -> datetime | None:
    """Return a file time; None if it is beyond the range of the calendar."""
    try:
        return EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return None
