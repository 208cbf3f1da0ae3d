"""Routes for ssh machines. Administrators only."""

from fastapi import Response

from holdfast.access.caller import AdminOnly
from holdfast.api.answers import documented
from holdfast.api.dependencies import Reading, TheDatabase, Writing
from holdfast.api.router import router
from holdfast.kit.fields import RowId
from holdfast.machines import connections, present, schemas, store
from holdfast.machines.machines import TheMachines
from holdfast.machines.models import SshConnection
from holdfast.runner.engine_requests import asks_engine
from holdfast.storage.session import Database

routes = router("/api/ssh-connections", "ssh machines")


@routes.get("", summary="All ssh connections")
def list_connections(caller: AdminOnly, session: Reading) -> schemas.Connections:
    del caller
    return schemas.Connections(connections=[present.connection_answer(session, each) for each in store.every(session)])


@routes.post("", summary="Add an ssh connection", status_code=201, responses=documented(409))
def add_connection(caller: AdminOnly, wanted: schemas.NewConnection, session: Writing) -> schemas.ConnectionAnswer:
    """The machine is not contacted yet; test the connection next."""
    return present.connection_answer(session, connections.add(session, caller, wanted))


@routes.get("/system-key", summary="Get the service's public key")
@asks_engine
def read_system_key(caller: AdminOnly, machines: TheMachines) -> schemas.SystemKey:
    """Created on first use. Add its line to `authorized_keys` of each account."""
    del caller
    return present.system_key(machines.keys.newest())


@routes.post("/system-key/rotate", summary="Rotate the service's key")
@asks_engine
def rotate_system_key(caller: AdminOnly, machines: TheMachines) -> schemas.RotationAnswer:
    """The new key is added to each machine with the old one. Where that fails, the old one stays in use."""
    return present.rotation_answer(machines.deployment.rotate(caller))


@routes.get("/{connection_id}", summary="One ssh connection", responses=documented(404))
def read_connection(caller: AdminOnly, connection_id: RowId, session: Reading) -> schemas.ConnectionAnswer:
    del caller
    return present.connection_answer(session, store.require(session, connection_id))


@routes.put("/{connection_id}", summary="Update an ssh connection", responses=documented(404, 409))
def change_connection(
    caller: AdminOnly,
    connection_id: RowId,
    wanted: schemas.ConnectionChange,
    session: Writing,
    machines: TheMachines,
) -> schemas.ConnectionAnswer:
    """Changes only the given fields.

    Repositories move with the connection; the engine may require a confirmation that they were moved.
    """
    changed = connections.change(session, machines.links, caller, connection_id, wanted)
    return present.connection_answer(session, changed)


@routes.delete("/{connection_id}", summary="Delete an ssh connection", status_code=204, responses=documented(404, 409))
def forget_connection(caller: AdminOnly, connection_id: RowId, session: Writing, machines: TheMachines) -> Response:
    """The key stays in the machine's `authorized_keys`."""
    connections.forget(session, machines.links, caller, connection_id)
    return Response(status_code=204)


@routes.post("/{connection_id}/test", summary="Test an ssh connection step by step", responses=documented(404))
@asks_engine
def try_connection(
    caller: AdminOnly, connection_id: RowId, machines: TheMachines, wanted: schemas.TestRequest | None = None
) -> schemas.TestAnswer:
    """The first test pins the host's key. A failed step shows why it failed and what to do."""
    del caller
    return present.tested(machines.test.run(connection_id, (wanted or schemas.TestRequest(path=".")).path))


@routes.post(
    "/{connection_id}/deploy-key", summary="Deploy the service's key using a password", responses=documented(404)
)
@asks_engine
def deploy_key(
    caller: AdminOnly, connection_id: RowId, wanted: schemas.DeployRequest, machines: TheMachines, database: TheDatabase
) -> schemas.ConnectionAnswer:
    """The password is used for one login and not stored. An existing key stays as it is."""
    password = wanted.password.get_secret_value()
    return _presented(database, machines.deployment.deploy(caller, connection_id, password))


@routes.post("/{connection_id}/host-key/accept", summary="Accept a host's new key", responses=documented(404, 409))
@asks_engine
def accept_host_key(
    caller: AdminOnly,
    connection_id: RowId,
    wanted: schemas.AcceptedHostKey,
    machines: TheMachines,
    database: TheDatabase,
) -> schemas.ConnectionAnswer:
    """Pins only the key with the given fingerprint, and only if the host shows it now."""
    accepted = connections.accept_host_key(database, machines.links, caller, connection_id, wanted.fingerprint)
    return _presented(database, accepted)


def _presented(database: Database, connection: SshConnection) -> schemas.ConnectionAnswer:
    with database.reading() as session:
        return present.connection_answer(session, connection)
