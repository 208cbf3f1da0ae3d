"""The whole service in the process of the test, for what can be shown without a socket."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient
from pydantic import SecretStr

from holdfast.access.first_admin import ensure_first_admin
from holdfast.composition import Service
from holdfast.settings import Settings
from holdfast.storage.migrate import migrate
from holdfast.storage.session import Database
from tests.support.service import ADMIN_PASSWORD
from tests.support.stores import sqlite_template


@dataclass(frozen=True)
class InProcess:
    service: Service
    client: TestClient

    def login(self, username: str = "admin", password: str = ADMIN_PASSWORD) -> dict[str, str]:
        """Log in and return the header for further requests."""
        answer = self.client.post("/api/auth/login", data={"username": username, "password": password})
        assert answer.status_code == 200, answer.text
        return {"X-Backup-Authorization": f"Bearer {answer.json()['access_token']}"}


@contextmanager
def started(folder: Path, **settings: Any) -> Iterator[InProcess]:
    """A service on a new SQLite store, with its loops running until the block ends."""
    values = {"data_dir": folder, "database_url": None, "role": "all", "admin_password": SecretStr(ADMIN_PASSWORD)}
    chosen = Settings(**{**values, **settings})
    folder.mkdir(parents=True, exist_ok=True)
    if chosen.database_url is None and not (folder / "holdfast.db").exists():
        shutil.copyfile(sqlite_template(), folder / "holdfast.db")
    database = Database(chosen.store_url)
    migrate(database)
    ensure_first_admin(database, chosen)
    service = Service(chosen, database)
    with TestClient(service.app(), raise_server_exceptions=False) as client:
        yield InProcess(service, client)
