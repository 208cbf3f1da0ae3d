"""Errors of packages."""

from holdfast.errors import Conflict, NotFound, Unprocessable


def unknown(package_id: int) -> NotFound:
    return NotFound("packages.not_found", "There is no such package.", package_id=package_id)


def name_taken() -> Conflict:
    return Conflict("packages.name_taken", "A package has this name already.")


def install_active(operation_id: int) -> Conflict:
    return Conflict(
        "packages.install_active",
        "An install of this package waits or runs; cancel it or wait for it first.",
        operation_id=operation_id,
    )


def value_missing(field: str) -> Unprocessable:
    return Unprocessable("packages.value_missing", f"The field {field} cannot be null.", field=field)
