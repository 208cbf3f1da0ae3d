"""The parts of the service that ssh machines contribute."""

from fastapi import APIRouter, FastAPI

from holdfast.access.stored_secrets import SecretColumn
from holdfast.machines.folder_routes import probes
from holdfast.machines.folder_routes import routes as folder_routes
from holdfast.machines.keys import secret_context
from holdfast.machines.machines import Machines
from holdfast.machines.models import SshKey
from holdfast.machines.routes import routes

__all__ = ["ROUTERS", "SECRETS", "Machines", "install"]

ROUTERS: tuple[APIRouter, ...] = (routes, folder_routes, probes)
SECRETS = SecretColumn(SshKey.__tablename__, "private_key", lambda row: secret_context(row["uuid"]))


def install(app: FastAPI, machines: Machines) -> None:
    """Give the routes their objects."""
    app.state.machines = machines
