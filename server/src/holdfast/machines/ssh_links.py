"""Turns a connection's record into a link that ssh can use, with its key and pinned host key."""

from collections.abc import Callable
from functools import partial

from sqlalchemy.orm import Session

from holdfast.errors import Unprocessable
from holdfast.execution import ssh
from holdfast.execution.ssh import HostKey, SshLink
from holdfast.kit import clock
from holdfast.machines import errors, store
from holdfast.machines.keys import Keys, keep_private
from holdfast.machines.models import SshConnection, SshKey
from holdfast.storage.session import Database, after_commit


class Links:
    """Links to ssh machines. Private keys and pinned host keys are files because ssh requires it."""

    def __init__(self, database: Database, keys: Keys) -> None:
        self._database = database
        self.keys = keys
        self.on_change: list[Callable[[int], None]] = []
        """Called with the id of a connection whose links will differ from now on."""

    def changed(self, session: Session, connection_id: int) -> None:
        """After this transaction is committed, notify listeners that keep a link of the connection open."""
        for listener in self.on_change:
            after_commit(session, partial(listener, connection_id))

    def connection(self, connection_id: int) -> SshConnection:
        with self._database.reading() as session:
            return store.require(session, connection_id)

    def link(self, connection_id: int) -> SshLink:
        """The link to a machine. Its host key is pinned on first use.

        Raise Unprocessable if the host cannot be reached for that.
        """
        connection = self.connection(connection_id)
        if connection.host_key is None:
            connection = self.pin(connection)
        return self.link_of(connection, self.key_of(connection))

    def link_of(self, connection: SshConnection, key: SshKey, *, on_trial: bool = False) -> SshLink:
        """The link with the given key. The connection's host key must already be pinned.

        Its files keep their names for the life of the connection, so that running links find a new key in them. A key
        on trial gets a file of its own.
        """
        alias = f"holdfast-{connection.id}"
        known = self.keys.folder / f"known-hosts-{connection.id}"
        keep_private(known, f"{alias} {connection.host_key}\n")
        identity = self.keys.put(key, f"{'trial' if on_trial else 'identity'}-{connection.id}")
        return SshLink(connection.username, connection.host, connection.port, alias, identity, known)

    def forget(self, connection_id: int) -> None:
        for name in ("identity", "trial", "known-hosts"):
            (self.keys.folder / f"{name}-{connection_id}").unlink(missing_ok=True)

    def key_of(self, connection: SshConnection) -> SshKey:
        if connection.key_id is not None:
            with self._database.reading() as session:
                key = store.key(session, connection.key_id)
            if key is not None:
                return key
        return self.keys.newest()

    def pin(self, connection: SshConnection) -> SshConnection:
        """Pin the key that the host shows now, unless one is already pinned."""
        shown = self.shown_by(connection)
        with self._database.writing() as session:
            row = store.require(session, connection.id)
            if row.host_key is None and (row.host, row.port) == (connection.host, connection.port):
                row.host_key, row.host_key_pinned_at = shown.text, clock.now()
            return row

    def shown_by(self, connection: SshConnection) -> HostKey:
        """The key that the host shows now. Raise Unprocessable if it shows none."""
        if (why := ssh.why_unreachable(connection.host, connection.port)) is not None:
            raise errors.refused(why, host=connection.host, port=connection.port)
        kind = HostKey.of(connection.host_key).kind if connection.host_key else None
        shown = ssh.scan_host_key(connection.host, connection.port, kind)
        if shown is None:
            raise Unprocessable("ssh.no_host_key", "The host offers no key that can be pinned; check its sshd log.")
        return shown
