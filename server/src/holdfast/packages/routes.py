"""HTTP for packages. Administrators only."""

from typing import Annotated, Any

from fastapi import Depends, Response
from sqlalchemy.orm import Session

from holdfast.access import audit
from holdfast.access.caller import AdminOnly, Caller, LoginOnly, admin_only
from holdfast.access.idempotency import Once
from holdfast.api.answers import documented
from holdfast.api.dependencies import Reading, TheSettings, Writing
from holdfast.api.router import router
from holdfast.errors import Conflict, Unprocessable
from holdfast.kit import clock
from holdfast.kit.fields import PageLimit, RowId
from holdfast.operations import pages
from holdfast.operations.kinds import Kind, kind_named
from holdfast.operations.routes import Cursor
from holdfast.operations.schemas import StartAnswer
from holdfast.packages import start as starting
from holdfast.packages import store
from holdfast.packages.models import Package
from holdfast.packages.present import jobs, packages
from holdfast.packages.schemas import NewPackage, PackageAnswer, PackageChange, PackageJob, PackageJobs, PackageList
from holdfast.repositories.job_routes import JobRoutes, starts

routes = router("/api/packages", "packages")


TheKind = Annotated[Kind, Depends(kind_named(store.KIND))]


@routes.get("/", summary="All packages")
def list_packages(_caller: AdminOnly, session: Reading) -> PackageList:
    return PackageList(packages=packages(session, store.all_packages(session)))


@routes.post("/", summary="Add a package", status_code=201, responses=documented(409))
def add_package(caller: AdminOnly, wanted: NewPackage, session: Writing) -> PackageAnswer:
    store.require_unused(session, wanted.name)
    now = clock.now()
    package = Package(**wanted.model_dump(), status="not_installed", created_at=now, updated_at=now)
    session.add(package)
    session.flush()
    _audit(session, caller, "package.created", package)
    return packages(session, [package])[0]


@routes.put("/{package_id}", summary="Change a package", responses=documented(404, 409))
def change_package(caller: AdminOnly, package_id: RowId, wanted: PackageChange, session: Writing) -> PackageAnswer:
    """Waiting installations keep the command that they were queued with."""
    package = store.get(session, package_id)
    for field, value in wanted.model_dump(exclude_unset=True).items():
        if value is None and field != "description":
            raise Unprocessable("packages.value_missing", f"The field {field} cannot be null.", field=field)
        if field == "name":
            store.require_unused(session, value, but=package_id)
        setattr(package, field, value)
    package.updated_at = clock.now()
    session.flush()
    _audit(session, caller, "package.changed", package)
    return packages(session, [package])[0]


@routes.delete("/{package_id}", summary="Remove a package's record", status_code=204, responses=documented(404, 409))
def remove_package(caller: AdminOnly, package_id: RowId, session: Writing) -> Response:
    """The installed program remains."""
    package = store.get(session, package_id)
    if install := store.active_installs(session).get(package_id):
        raise Conflict(
            "packages.install_active",
            "This package is already being installed, or waiting to be; wait or cancel it first.",
            operation_id=install.id,
        )
    _audit(session, caller, "package.deleted", package)
    session.delete(package)
    return Response(status_code=204)


@starts(routes, "/{package_id}/install", "Install a package")
def install_package(caller: LoginOnly, package_id: RowId, session: Writing, kind: TheKind, once: Once) -> Any:
    """One installation runs at a time; others wait."""

    def start() -> StartAnswer:
        operation = starting.start(session, caller, kind, package_id)
        message = f"The install of {operation.package_name} is queued."
        return StartAnswer(job_id=operation.id, status=operation.status, message=message)

    return once(session, start)


@routes.get("/jobs", summary="List install jobs, newest first")
def list_jobs(
    _caller: AdminOnly, session: Reading, settings: TheSettings, limit: PageLimit = 100, cursor: Cursor = None
) -> PackageJobs:
    found, next_cursor = pages.page(session, pages.Filter(kinds=(store.KIND,)), limit, cursor)
    return PackageJobs(jobs=jobs(session, settings.logs_dir, found, with_logs=False), next_cursor=next_cursor)


JOBS = JobRoutes(routes=routes, kind=store.KIND, present=jobs, readers=admin_only)
JOBS.status("/jobs/{job_id}", PackageJob, name="read_job", summary="Get the status of an install job")


def _audit(session: Session, caller: Caller, action: str, package: Package, **details: Any) -> None:
    details = {"name": package.name, "install_command": package.install_command, **details}
    audit.note(session, caller, action, "package", package.id, details)
