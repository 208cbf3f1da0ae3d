"""The ssh machines as the rest of the service uses them."""

from holdfast.access.vault import Vault
from holdfast.errors import Unprocessable
from holdfast.machines import store
from holdfast.machines.connection_test import ConnectionTest
from holdfast.machines.deploy import KeyDeployment
from holdfast.machines.keys import Keys
from holdfast.machines.links import Links
from holdfast.machines.models import SshConnection
from holdfast.repositories.ssh_address import SshAccount
from holdfast.settings import Settings
from holdfast.storage.session import Database


class Machines:
    def __init__(self, settings: Settings, database: Database, vault: Vault) -> None:
        self._database = database
        self.keys = Keys(settings, database, vault)
        self.links = Links(database, self.keys)
        self.test = ConnectionTest(database, self.links)
        self.deployment = KeyDeployment(database, self.links)

    def account(self, connection_id: int) -> SshAccount:
        connection = self._known(connection_id)
        return SshAccount(connection.username, connection.host, connection.port)

    def connection_of(self, account: SshAccount) -> int | None:
        with self._database.reading() as session:
            found = store.on_host(session, account.host, account.port)
        matching = [one.id for one in found if account.username in (None, one.username)]
        return matching[0] if len(matching) == 1 else None

    def engine_path(self, connection_id: int) -> str | None:
        return self._known(connection_id).engine_path

    def rsh(self, connection_id: int) -> str:
        self._known(connection_id)
        return self.links.link(connection_id).rsh

    def _known(self, connection_id: int) -> SshConnection:
        with self._database.reading() as session:
            connection = store.get(session, connection_id)
        if connection is None:
            sentence = "There is no such ssh connection; add it first, and test it."
            raise Unprocessable("repository.unknown_connection", sentence, ssh_connection_id=connection_id)
        return connection
