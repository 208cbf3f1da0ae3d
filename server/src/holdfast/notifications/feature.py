"""The parts of the service that notifications contribute."""

from fastapi import APIRouter, FastAPI

from holdfast.access.stored_secrets import SecretColumn
from holdfast.access.vault import Vault
from holdfast.kit.supervisor import Supervisor
from holdfast.notifications.destinations import secret_context
from holdfast.notifications.events import reader
from holdfast.notifications.models import Destination
from holdfast.notifications.reports.gather import Sources
from holdfast.notifications.routes import routes
from holdfast.notifications.state import Notifications
from holdfast.operations.readers import Readers
from holdfast.storage.session import Database

__all__ = ["ROUTERS", "SECRETS", "Notifications", "Sources", "build", "install"]

ROUTERS: tuple[APIRouter, ...] = (routes,)
SECRETS = SecretColumn(Destination.__tablename__, "secrets", lambda row: secret_context(row["uuid"]))


def build(
    database: Database, vault: Vault, supervisor: Supervisor, readers: Readers, sources: Sources
) -> Notifications:
    readers.register(reader.reader())
    return Notifications(database, vault, supervisor, sources)


def install(app: FastAPI, notifications: Notifications) -> None:
    app.state.notifications = notifications
