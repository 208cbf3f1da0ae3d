"""Errors of downloads."""

from holdfast.errors import NotFound, Unprocessable


def path_not_found(missing: list[str]) -> NotFound:
    return NotFound("archives.path_not_found", "This path is not in the archive.", paths=missing)


def not_a_file() -> Unprocessable:
    return Unprocessable("archives.not_a_file", "The path is not a regular file; download folders as tar or zip.")
