"""What scripts bring to the service."""

from datetime import timedelta

from fastapi import FastAPI

from holdfast.access.stored_secrets import SecretColumn
from holdfast.access.vault import Vault
from holdfast.kit import clock
from holdfast.operations.kinds import Kind
from holdfast.repositories.location import SshMachines
from holdfast.scripts import store
from holdfast.scripts.library import FindUses, Library, Use
from holdfast.scripts.models import ScriptSecrets
from holdfast.scripts.parameters import Secrets, secret_context
from holdfast.scripts.routes import routes
from holdfast.scripts.run import Execution
from holdfast.storage.session import Database

__all__ = ["ROUTERS", "SECRETS", "FindUses", "Scripts", "Use", "install"]

ROUTERS = (routes,)
SECRETS = SecretColumn(ScriptSecrets.__tablename__, "sealed", lambda row: secret_context(row["uuid"]))
KEPT = timedelta(days=1)


class Scripts:
    """`find_uses` finds all script steps of schedules."""

    def __init__(self, database: Database, vault: Vault, machines: SshMachines, find_uses: FindUses) -> None:
        self._database = database
        self.library = Library(Secrets(vault), find_uses)
        self._execution = Execution(self.library.secrets, machines)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return (self._execution.kind(),)

    def tidy(self) -> None:
        """Forget secrets that nothing uses any more."""
        with self._database.writing() as session:
            used = {str(use.step["secret_id"]) for use in self.library.find_uses(session) if use.step.get("secret_id")}
            store.forget_secrets(session, used, clock.now() - KEPT)


def install(app: FastAPI, scripts: Scripts) -> None:
    app.state.scripts = scripts.library
