"""All statements on packages."""

from typing import Any

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from holdfast.errors import Conflict
from holdfast.operations import pages
from holdfast.operations.models import Operation
from holdfast.packages import errors
from holdfast.packages.models import Package
from holdfast.storage.rows import require_row

KIND = "package_install"


def get(session: Session, package_id: int) -> Package:
    """Return a package. Raise NotFound."""
    return require_row(session, Package, package_id, errors.unknown)


def all_packages(session: Session) -> list[Package]:
    return list(session.scalars(select(Package).order_by(Package.name, Package.id)))


def require_unused(session: Session, name: str, but: int | None = None) -> None:
    """Raise Conflict if another package has this name."""
    found = session.scalars(select(Package).where(Package.name == name)).first()
    if found is not None and found.id != but:
        raise Conflict("packages.name_taken", "A package with this name already exists.")


def note(session: Session, package_id: int, **values: Any) -> None:
    session.execute(update(Package).where(Package.id == package_id).values(**values))


def active_installs(session: Session) -> dict[int, Operation]:
    """Return each package's waiting or running installation; if there are several, the one that runs or is next."""
    found: dict[int, Operation] = {}
    for operation in pages.active(session, None, of_repositories_only=False):
        if operation.kind == KIND:
            found.setdefault(operation.params["package_id"], operation)
    return found
