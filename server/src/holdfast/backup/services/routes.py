"""Routes for the services that backups stop."""

from holdfast.access.caller import LoginOnly, SignedIn
from holdfast.access.roles import Role
from holdfast.api.answers import documented
from holdfast.api.dependencies import Reading, Writing
from holdfast.api.router import router
from holdfast.backup.services import stored
from holdfast.backup.services.schemas import Services
from holdfast.kit.fields import RowId
from holdfast.repositories import store

routes = router("/api/repositories", "services")


@routes.get("/{repository_id}/services", summary="List services that backups stop", responses=documented(404))
def list_services(caller: SignedIn, repository_id: RowId, session: Reading) -> Services:
    store.require(session, caller, repository_id, Role.OPERATOR)
    return Services(services=list(stored.of_repository(session, repository_id)))


@routes.put("/{repository_id}/services", summary="Set the services that backups stop", responses=documented(404))
def set_services(caller: LoginOnly, repository_id: RowId, wanted: Services, session: Writing) -> Services:
    """Replaces the list; with an empty list, no services are stopped. Nothing is stopped before the next backup."""
    repository = store.require_administered(session, caller, repository_id)
    return Services(services=list(stored.replace(session, caller, repository, wanted.services)))
