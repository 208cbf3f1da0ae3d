"""What access brings to the service."""

from fastapi import APIRouter, FastAPI

from holdfast.access.last_used import LastUsed
from holdfast.access.vault import Vault
from holdfast.settings import Settings
from holdfast.storage.session import Database

ROUTERS: list[APIRouter] = []


def install(app: FastAPI, settings: Settings, database: Database, vault: Vault | None = None) -> None:
    """Give the application what the guards need."""
    app.state.vault = vault or Vault(settings)
    app.state.last_used = LastUsed(database)
