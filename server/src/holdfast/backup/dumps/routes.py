"""Routes for database dumps."""

from typing import Annotated, Any

from fastapi import Depends, Response

from holdfast.access.caller import LoginOnly, SignedIn
from holdfast.access.roles import Role
from holdfast.access.vault import VAULT, Vault
from holdfast.api.answers import documented
from holdfast.api.dependencies import Reading, Writing
from holdfast.api.router import router
from holdfast.backup.dumps import databases, make_dumps
from holdfast.backup.dumps.schemas import DatabaseAnswer, DatabaseBody, Databases
from holdfast.kit.fields import RowId
from holdfast.operations.models import Operation
from holdfast.repositories import store
from holdfast.repositories.job_routes import ToStart, starts
from holdfast.repositories.own_places import ThePlaces

routes = router("/api/repositories", "dumps")


TheVault = Annotated[Vault, Depends(VAULT)]


@routes.get("/{repository_id}/databases", summary="List databases to dump", responses=documented(404))
def list_databases(caller: SignedIn, repository_id: RowId, session: Reading) -> Databases:
    """Passwords are never shown."""
    store.require(session, caller, repository_id, Role.OPERATOR)
    return Databases(databases=[databases.answer(each) for each in databases.of_repository(session, repository_id)])


@routes.post("/{repository_id}/databases", summary="Add a database", status_code=201, responses=documented(404, 409))
def add_database(
    caller: LoginOnly, repository_id: RowId, wanted: DatabaseBody, session: Writing, vault: TheVault, places: ThePlaces
) -> DatabaseAnswer:
    """The database is included in the next dumps of the repository. No connection is made yet."""
    repository = store.require_administered(session, caller, repository_id)
    return databases.answer(databases.save(session, caller, vault, places, repository, wanted))


@routes.put("/{repository_id}/databases/{database_id}", summary="Change a database", responses=documented(404, 409))
def change_database(
    caller: LoginOnly,
    repository_id: RowId,
    database_id: RowId,
    wanted: DatabaseBody,
    session: Writing,
    vault: TheVault,
    places: ThePlaces,
) -> DatabaseAnswer:
    """Replaces all settings. If no password is given, the stored one is kept."""
    repository = store.require_administered(session, caller, repository_id)
    known = databases.require(session, repository_id, database_id)
    return databases.answer(databases.save(session, caller, vault, places, repository, wanted, known))


@routes.delete(
    "/{repository_id}/databases/{database_id}", summary="Remove a database", status_code=204, responses=documented(404)
)
def remove_database(caller: LoginOnly, repository_id: RowId, database_id: RowId, session: Writing) -> Response:
    """Archives that contain its dumps are kept."""
    store.require_administered(session, caller, repository_id)
    databases.remove(session, caller, databases.require(session, repository_id, database_id))
    return Response(status_code=204)


@starts(routes, "/{repository_id}/dump", "Dump the databases into an archive")
def start_dump(to_start: ToStart, repository_id: RowId) -> Any:
    """Creates one archive of the series `<repository>-databases` with the dumps of all databases of the repository."""
    session, caller = to_start.session, to_start.caller

    def start() -> Operation:
        repository = store.require(session, caller, repository_id, Role.OPERATOR)
        return make_dumps.start(session, caller, to_start.kinds["dump"], repository)

    return to_start.answer("dump", start)
