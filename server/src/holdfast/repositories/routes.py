"""HTTP for repositories."""

from typing import Annotated

from fastapi import Query, Response

from holdfast.access import rights, users
from holdfast.access.caller import AdminOnly, Caller, LoginOnly, SignedIn
from holdfast.access.roles import Role
from holdfast.access.schemas import AccessPage, UserAccess
from holdfast.api.answers import documented
from holdfast.api.dependencies import Reading, TheDatabase, Writing
from holdfast.api.prepared import cached_until_commit
from holdfast.api.router import router
from holdfast.kit import cursor as cursors
from holdfast.kit.fields import PageLimit, PlainText, RowId
from holdfast.repositories import labels, schemas, store
from holdfast.repositories.labels import LabelFilter
from holdfast.repositories.models import Repository
from holdfast.repositories.present import present
from holdfast.repositories.register import TheRegister
from holdfast.runner.engine_requests import asks_engine
from holdfast.storage.session import Database

routes = router("/api/repositories", "repositories")


@routes.get("/", summary="List all repositories visible to you")
@cached_until_commit(viewer="caller")
def list_repositories(caller: SignedIn, session: Reading, label: LabelFilter = ()) -> schemas.RepositoryList:
    repositories = store.visible(session, rights.visible_repositories(session, caller))
    wanted = labels.parse(label)
    kept = [each for each in repositories if labels.matches(wanted, each.labels)]
    return schemas.RepositoryList(repositories=present(session, caller, kept))


@routes.post("/", summary="Create a repository", status_code=201, responses=documented(409, 423))
@asks_engine
def create_repository(
    caller: AdminOnly, wanted: schemas.NewRepository, register: TheRegister, database: TheDatabase
) -> schemas.RepositoryAnswer:
    """Runs the engine's init. A wrong or unusable place is refused and nothing is stored."""
    return _presented(database, caller, register.create(caller, wanted))


@routes.post("/import", summary="Import an existing repository", status_code=201, responses=documented(409, 423))
@asks_engine
def import_repository(
    caller: AdminOnly, wanted: schemas.ImportedRepository, register: TheRegister, database: TheDatabase
) -> schemas.RepositoryAnswer:
    """Opens the repository to prove that path and passphrase are right; nothing is stored if it does not open."""
    return _presented(database, caller, register.import_existing(caller, wanted))


@routes.get("/{repository_id}", summary="One repository", responses=documented(404))
def read_repository(caller: SignedIn, repository_id: RowId, session: Reading) -> schemas.RepositoryAnswer:
    repository = store.require(session, caller, repository_id, Role.VIEWER)
    return present(session, caller, [repository])[0]


@routes.put("/{repository_id}", summary="Update a repository's settings", responses=documented(404, 409, 423))
@asks_engine
def change_repository(
    caller: SignedIn,
    repository_id: RowId,
    wanted: schemas.RepositoryChange,
    register: TheRegister,
    database: TheDatabase,
) -> schemas.RepositoryAnswer:
    """Changes only the given fields. A new passphrase is tried on the repository before it is stored."""
    _require(database, caller, repository_id, Role.ADMIN)
    return _presented(database, caller, register.change(caller, repository_id, wanted))


@routes.delete(
    "/{repository_id}",
    summary="Forget a repository without deleting its data",
    status_code=204,
    responses=documented(404, 409),
)
def forget_repository(caller: SignedIn, repository_id: RowId, register: TheRegister, database: TheDatabase) -> Response:
    """Removes the record and its index. The repository itself is not touched."""
    _require(database, caller, repository_id, Role.ADMIN)
    register.forget(caller, repository_id)
    return Response(status_code=204)


@routes.get("/{repository_id}/access", summary="List who may do what with the repository", responses=documented(404))
def list_access(
    caller: SignedIn,
    repository_id: RowId,
    session: Reading,
    limit: PageLimit = 100,
    cursor: Annotated[Annotated[str, PlainText(1, 200)] | None, Query()] = None,
) -> AccessPage:
    """Every user, in the order of their ids, with their role on the repository and the reason for it."""
    store.require(session, caller, repository_id, Role.ADMIN)
    after = int(cursors.decode(cursor, int)[0]) if cursor is not None else 0
    found = users.with_right_on(session, repository_id, after, limit + 1)
    next_cursor = cursors.encode(found[limit - 1][0].id) if len(found) > limit else None
    return AccessPage(users=[UserAccess.of(*one) for one in found[:limit]], next_cursor=next_cursor)


@routes.get("/{repository_id}/key", summary="Export the repository's key", responses=documented(404, 409, 423))
@asks_engine
def export_key(
    caller: LoginOnly, repository_id: RowId, register: TheRegister, database: TheDatabase
) -> schemas.KeyAnswer:
    repository = _require(database, caller, repository_id, Role.ADMIN)
    return schemas.KeyAnswer(repository_id=repository_id, key=register.export_key(caller, repository))


@routes.post("/{repository_id}/break-lock", summary="Remove a stale engine lock", responses=documented(404, 409, 423))
@asks_engine
def break_lock(caller: LoginOnly, repository_id: RowId, register: TheRegister, database: TheDatabase) -> schemas.Done:
    repository = _require(database, caller, repository_id, Role.OPERATOR)
    if repository.execution_target == "agent":
        with database.writing() as session:
            operation = register.agents.start_breaking_lock(session, caller, repository)
        message = "The agent will remove the engine's locks on the repository."
        return schemas.Done(repository_id=repository_id, message=message, operation_id=operation.id)
    register.break_lock(caller, repository)
    return schemas.Done(repository_id=repository_id, message="The engine's locks on the repository were removed.")


@routes.post("/{repository_id}/setup", summary="Retry setting up an agent's repository", responses=documented(404, 409))
def set_up_repository(
    caller: SignedIn, repository_id: RowId, session: Writing, register: TheRegister
) -> schemas.RepositoryAnswer:
    """For a setup that has failed or was cancelled."""
    repository = store.require(session, caller, repository_id, Role.ADMIN)
    register.agents.set_up_again(session, caller, repository)
    return present(session, caller, [repository])[0]


@routes.post(
    "/{repository_id}/confirm-relocation",
    summary="Confirm that a repository was moved on purpose",
    responses=documented(404, 409, 423),
)
@asks_engine
def confirm_relocation(
    caller: SignedIn, repository_id: RowId, register: TheRegister, database: TheDatabase
) -> schemas.Done:
    repository = _require(database, caller, repository_id, Role.ADMIN)
    if repository.execution_target == "agent":
        with database.writing() as session:
            repository = store.require(session, caller, repository_id, Role.ADMIN)
            operation = register.agents.confirm_relocation(session, caller, repository)
        message = "The agent will open the repository at its new location."
        return schemas.Done(repository_id=repository_id, message=message, operation_id=operation.id)
    register.confirm_relocation(caller, repository)
    return schemas.Done(
        repository_id=repository_id, message="The engine now accepts the repository at its new location."
    )


@routes.post(
    "/{repository_id}/confirm-older",
    summary="Confirm using an older state of a repository",
    responses=documented(404, 409, 423, 503),
)
@asks_engine
def confirm_older(
    caller: SignedIn,
    repository_id: RowId,
    wanted: schemas.OlderConfirmation,
    register: TheRegister,
    database: TheDatabase,
) -> schemas.OlderAnswer:
    """For use after an older copy was restored. The archives that it lacks stay listed as lost; `dry_run` lists them
    first.
    """
    repository = _require(database, caller, repository_id, Role.ADMIN)
    return register.corrections.confirm_older(caller, repository, dry_run=wanted.dry_run)


@routes.post(
    "/{repository_id}/accept-replacement",
    summary="Accept a different repository at the path",
    responses=documented(404, 409, 423, 503),
)
@asks_engine
def accept_replacement(
    caller: SignedIn, repository_id: RowId, wanted: schemas.Replacement, register: TheRegister, database: TheDatabase
) -> schemas.Done:
    """The other repository replaces the registered one; its archives replace the old list at the next listing."""
    repository = _require(database, caller, repository_id, Role.ADMIN)
    passphrase = wanted.passphrase.get_secret_value() if wanted.passphrase else None
    engine_id, operation = register.corrections.accept_replacement(caller, repository, passphrase)
    if operation is not None:
        message = "The agent will open the repository that is now at this location."
        return schemas.Done(repository_id=repository_id, message=message, operation_id=operation.id)
    return schemas.Done(repository_id=repository_id, message=f"The repository {engine_id} is now registered.")


def _require(database: Database, caller: SignedIn, repository_id: int, role: Role) -> Repository:
    with database.reading() as session:
        return store.require(session, caller, repository_id, role)


def _presented(database: Database, caller: Caller, repository: Repository) -> schemas.RepositoryAnswer:
    with database.reading() as session:
        return present(session, caller, [repository])[0]
