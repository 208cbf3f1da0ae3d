"""Adds, changes and removes ssh machines."""

from typing import Any

from sqlalchemy.orm import Session

from holdfast.access import audit
from holdfast.access.caller import Caller
from holdfast.errors import Conflict, Unprocessable
from holdfast.kit import clock
from holdfast.machines import store
from holdfast.machines.models import SshConnection
from holdfast.machines.schemas import ConnectionChange, NewConnection
from holdfast.machines.ssh_links import Links
from holdfast.operations import pages, queue
from holdfast.repositories import ssh_address
from holdfast.repositories import store as repositories
from holdfast.repositories.errors import operation_running
from holdfast.repositories.ssh_address import SshAccount, SshAddress
from holdfast.storage.session import Database


def add(session: Session, caller: Caller, wanted: NewConnection) -> SshConnection:
    store.require_unused(session, wanted.name, wanted.username, wanted.host, wanted.port)
    now = clock.now()
    connection = SshConnection(**wanted.model_dump(), state="unknown", created_at=now, updated_at=now)
    session.add(connection)
    session.flush()
    record(session, caller, "ssh.connection_created", connection)
    return connection


def change(
    session: Session, links: Links, caller: Caller, connection_id: int, wanted: ConnectionChange
) -> SshConnection:
    """Change the given fields. A new account or address must be tested again; repositories move with it.

    The host key stays pinned: the same machine shows it at its new address, and any other machine is refused.
    """
    connection = store.require(session, connection_id)
    changes = wanted.model_dump(exclude_unset=True)
    for name, value in changes.items():
        if value is None and name != "engine_path":
            raise Unprocessable("ssh.value_missing", f"The field {name} cannot be null.", field=name)
    account = {name: changes.get(name, getattr(connection, name)) for name in ("username", "host", "port")}
    store.require_unused(session, changes.get("name", connection.name), but=connection_id, **account)
    moved = any(getattr(connection, name) != value for name, value in account.items())
    if moved:
        move_repositories(session, connection_id, SshAccount(**account))
    for name, value in changes.items():
        setattr(connection, name, value)
    if moved:
        connection.state, connection.last_test = "unknown", None
    if "engine_path" in changes:
        connection.engine_program = connection.engine_version = None
    connection.updated_at = clock.now()
    if moved or "engine_path" in changes:
        links.changed(session, connection_id)
    record(session, caller, "ssh.connection_changed", connection, fields=sorted(changes))
    return connection


def move_repositories(session: Session, connection_id: int, account: SshAccount) -> None:
    """Point the repositories of a connection to its new address. Raise Conflict if they have unfinished work."""
    ids = store.repositories_of(session, connection_id)
    queue.serialise_claims(session)
    if ids and (active := pages.active(session, frozenset(ids), of_repositories_only=True)):
        raise operation_running(active[0].id)
    for number in ids:
        repository = repositories.get(session, number)
        if repository is None:
            continue
        known = ssh_address.parse(repository.path)
        if repository.execution_target == "local" and known is not None:
            repository.path = repository.identity = SshAddress(account, known.path).text
        elif repository.repository_type == "local":
            repository.identity = SshAddress(account, repository.path).text


def forget(session: Session, links: Links, caller: Caller, connection_id: int) -> None:
    connection = store.require(session, connection_id)
    if used := store.repositories_of(session, connection_id):
        raise Conflict(
            "ssh.in_use", "Repositories use this connection. Forget those repositories first.", repository_ids=used
        )
    record(session, caller, "ssh.connection_deleted", connection)
    session.delete(connection)
    links.forget(connection_id)


def accept_host_key(
    database: Database, links: Links, caller: Caller, connection_id: int, fingerprint: str
) -> SshConnection:
    """Pin the key that the host shows now, if it has the fingerprint that the caller has seen."""
    connection = links.connection(connection_id)
    shown = links.shown_by(connection)
    if shown.fingerprint != fingerprint:
        raise Conflict(
            "ssh.other_fingerprint",
            "The host key does not match the one you accepted; compare the fingerprints again.",
            fingerprint=shown.fingerprint,
        )
    with database.writing() as session:
        row = store.require(session, connection_id)
        row.host_key, row.host_key_pinned_at = shown.text, clock.now()
        row.updated_at = clock.now()
        links.changed(session, connection_id)
        record(session, caller, "ssh.host_key_accepted", row, fingerprint=fingerprint)
    links.link_of(row, links.key_of(row))
    return row


def record(session: Session, caller: Caller, action: str, connection: SshConnection, **details: Any) -> None:
    details = {"name": connection.name, "host": connection.host, **details}
    audit.note(session, caller, action, "ssh_connection", connection.id, details)
