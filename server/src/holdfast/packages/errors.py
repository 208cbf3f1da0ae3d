"""Errors of packages."""

from holdfast.errors import NotFound


def unknown(package_id: int) -> NotFound:
    return NotFound("packages.not_found", "Package not found.", package_id=package_id)
