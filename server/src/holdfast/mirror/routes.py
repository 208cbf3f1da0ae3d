"""Routes for remotes and mirrors. Remotes are managed by administrators."""

from typing import Annotated, Any

from fastapi import Body, Depends, Response
from sqlalchemy.orm import Session

from holdfast.access import audit
from holdfast.access.caller import AdminOnly, Caller, SignedIn
from holdfast.access.roles import Role
from holdfast.api.answers import documented
from holdfast.api.dependencies import Reading, TheDatabase, Writing
from holdfast.api.router import router
from holdfast.errors import Conflict, Unprocessable
from holdfast.kit.fields import RowId
from holdfast.mirror import engine2_remotes, schemas, store
from holdfast.mirror.mirrors import MIRRORS, Mirrors
from holdfast.mirror.models import RcloneRemote
from holdfast.mirror.present import mirror_answer, provider_answer, remote_answer
from holdfast.mirror.probe import Probe
from holdfast.mirror.remotes import REMOTES, Remotes
from holdfast.operations import queue
from holdfast.operations.models import Operation
from holdfast.repositories import store as repositories
from holdfast.repositories.job_routes import ToStart, starts
from holdfast.runner.engine_requests import asks_engine

remote_routes = router("/api/rclone", "mirror")
mirror_routes = router("/api/repositories", "mirror")


TheRemotes = Annotated[Remotes, Depends(REMOTES)]
TheMirrors = Annotated[Mirrors, Depends(MIRRORS)]


@remote_routes.get("/providers", summary="List rclone providers and their options")
@asks_engine
def list_providers(_caller: AdminOnly, remotes: TheRemotes) -> schemas.ProviderList:
    return schemas.ProviderList(providers=[provider_answer(each) for each in remotes.rclone.providers().values()])


@remote_routes.get("/remotes", summary="All remotes", responses=documented(409))
def list_remotes(_caller: AdminOnly, session: Reading, remotes: TheRemotes) -> schemas.RemoteList:
    return schemas.RemoteList(
        remotes=[remote_answer(session, remotes, remote) for remote in store.all_remotes(session)]
    )


@remote_routes.post("/remotes", summary="Add a remote", status_code=201, responses=documented(409))
@asks_engine
def add_remote(
    caller: AdminOnly, wanted: schemas.NewRemote, database: TheDatabase, remotes: TheRemotes
) -> schemas.RemoteAnswer:
    """The remote is not contacted yet: test it afterwards."""
    remote = remotes.new(wanted.name, wanted.provider, wanted.options)
    with database.writing() as session:
        queue.serialise_claims(session)
        store.require_unused_name(session, wanted.name)
        session.add(remote)
        session.flush()
        _audit(session, caller, "rclone_remote.created", remote)
        return remote_answer(session, remotes, remote)


@remote_routes.get("/remotes/{remote_id}", summary="One remote", responses=documented(404, 409))
def read_remote(_caller: AdminOnly, remote_id: RowId, session: Reading, remotes: TheRemotes) -> schemas.RemoteAnswer:
    return remote_answer(session, remotes, store.remote(session, remote_id))


@remote_routes.put("/remotes/{remote_id}", summary="Change a remote", responses=documented(404, 409))
@asks_engine
def change_remote(
    caller: AdminOnly, remote_id: RowId, wanted: schemas.RemoteChange, database: TheDatabase, remotes: TheRemotes
) -> schemas.RemoteAnswer:
    """Options that are not given stay, even secret ones; null removes an option."""
    with database.reading() as session:
        provider = store.remote(session, remote_id).provider
    options = remotes.checked(provider, wanted.options)
    with database.writing() as session:
        queue.serialise_claims(session)  # one request at a time checks and takes names and places
        remote = store.remote(session, remote_id)
        if wanted.name is not None:
            store.require_unused_name(session, wanted.name, but=remote_id)
            remote.name = wanted.name
            engine2_remotes.rename(session, remote)
        remotes.change(remote, options)
        session.flush()
        _audit(session, caller, "rclone_remote.changed", remote, options=sorted(wanted.options))
        return remote_answer(session, remotes, remote)


@remote_routes.delete(
    "/remotes/{remote_id}", summary="Forget a remote", status_code=204, responses=documented(404, 409)
)
def remove_remote(caller: AdminOnly, remote_id: RowId, session: Writing) -> Response:
    """Files stored there are kept."""
    queue.serialise_claims(session)
    remote = store.remote(session, remote_id)
    if users := store.users_of(session, remote_id):
        raise Conflict(
            "rclone.remote_in_use",
            "Repositories are stored on this remote or mirrored to it; forget them or remove their mirror settings "
            "first.",
            repository_ids=users,
        )
    _audit(session, caller, "rclone_remote.deleted", remote)
    session.delete(remote)
    return Response(status_code=204)


@remote_routes.post("/remotes/{remote_id}/test", summary="Test a remote step by step", responses=documented(404, 409))
@asks_engine
def try_remote(
    caller: AdminOnly,
    remote_id: RowId,
    database: TheDatabase,
    remotes: TheRemotes,
    wanted: Annotated[schemas.RemoteTest | None, Body()] = None,
) -> schemas.RemoteVerdict:
    """Writes a small object, reads it back and deletes it."""
    with database.reading() as session:
        remote = store.remote(session, remote_id)
    verdict = Probe(remotes).run(remote, (wanted or schemas.RemoteTest(path="")).path.rstrip("/"))
    with database.writing() as session:
        _audit(session, caller, "rclone_remote.tested", remote, ok=verdict.ok)
    return verdict


# --- mirrors of repositories ------------------------------------------------------------------------------------------


@mirror_routes.get("/{repository_id}/mirror", summary="Get a repository's mirror", responses=documented(404))
def read_mirror(caller: SignedIn, repository_id: RowId, session: Reading) -> schemas.MirrorAnswer:
    repositories.require(session, caller, repository_id, Role.VIEWER)
    return mirror_answer(session, store.require_mirror(session, repository_id))


@mirror_routes.put("/{repository_id}/mirror", summary="Configure a repository's mirror", responses=documented(404, 409))
def set_mirror(
    caller: SignedIn, repository_id: RowId, wanted: schemas.MirrorSettings, session: Writing, mirrors: TheMirrors
) -> schemas.MirrorAnswer:
    """A new mirror, or one at a new place, is filled immediately."""
    repository = repositories.require(session, caller, repository_id, Role.ADMIN)
    mirror, sync = mirrors.set(session, caller, repository, wanted)
    return mirror_answer(session, mirror, sync)


@mirror_routes.delete(
    "/{repository_id}/mirror", summary="Stop mirroring a repository", status_code=204, responses=documented(404, 409)
)
def remove_mirror(caller: SignedIn, repository_id: RowId, session: Writing, mirrors: TheMirrors) -> Response:
    """The mirrored files are kept on the remote."""
    mirrors.remove(session, caller, repositories.require(session, caller, repository_id, Role.ADMIN))
    return Response(status_code=204)


@starts(mirror_routes, "/{repository_id}/mirror/sync", "Sync the mirror with the repository")
def start_sync(
    to_start: ToStart,
    repository_id: RowId,
    mirrors: TheMirrors,
    wanted: Annotated[schemas.SyncBody | None, Body()] = None,
) -> Any:
    """A repository that looks damaged is not mirrored, unless `override_sanity` is given (administrators only)."""
    session, caller = to_start.session, to_start.caller
    override = (wanted or schemas.SyncBody()).override_sanity
    return to_start.answer("sync", lambda: mirrors.start_sync(session, caller, repository_id, override_sanity=override))


@starts(mirror_routes, "/{repository_id}/mirror/hydrate", "Restore a repository from its mirror to a new location")
def start_hydrate(to_start: ToStart, repository_id: RowId, mirrors: TheMirrors, wanted: schemas.HydrateBody) -> Any:
    """The copy is compared with the mirror and checked by the engine; import it afterwards to use it."""
    session, caller = to_start.session, to_start.caller

    def start() -> Operation:
        repository = repositories.require(session, caller, repository_id, Role.ADMIN)
        if not wanted.confirm:
            raise Unprocessable(
                "mirror.not_confirmed",
                "A hydrate fills a folder with the mirror's content; send confirm: true to start.",
            )
        return mirrors.start_hydrate(session, caller, repository.id, wanted.destination)

    return to_start.answer("hydrate", start)


def _audit(session: Session, caller: Caller, action: str, remote: RcloneRemote, **details: Any) -> None:
    details = {"name": remote.name, "provider": remote.provider, **details}
    audit.note(session, caller, action, "rclone_remote", remote.id, details)
