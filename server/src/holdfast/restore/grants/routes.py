"""HTTP for restore grants, for administrators."""

from fastapi import Response

from holdfast.access.caller import AdminLoginOnly, AdminOnly
from holdfast.api.answers import documented
from holdfast.api.dependencies import Reading, Writing
from holdfast.api.router import router
from holdfast.kit.fields import RowId
from holdfast.restore.grants import grants, store
from holdfast.restore.grants.schemas import NewRestoreGrant, RestoreGrantAnswer, RestoreGrants

routes = router("/api/restore-grants", "restore")


@routes.get("", summary="List who may restore to which machines and folders")
def list_restore_grants(caller: AdminOnly, session: Reading) -> RestoreGrants:
    """Grants add to the repository's own machine, to which every user with the right to restore may restore."""
    del caller
    return RestoreGrants(grants=grants.answers(session, store.every(session)))


@routes.post("", summary="Grant a user or role restores to a folder", status_code=201)
def add_restore_grant(caller: AdminLoginOnly, wanted: NewRestoreGrant, session: Writing) -> RestoreGrantAnswer:
    """If an identical grant exists, it is returned unchanged."""
    return grants.answers(session, [grants.add(session, caller, wanted)])[0]


@routes.delete("/{grant_id}", summary="Revoke a grant", status_code=204, responses=documented(404))
def remove_restore_grant(caller: AdminLoginOnly, grant_id: RowId, session: Writing) -> Response:
    """Restores that have begun continue; those that still wait fail with `restore.not_granted`."""
    grants.remove(session, caller, grant_id)
    return Response(status_code=204)
