"""Temporary stores and services for benches."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.settings import Settings
from tests.support.postgres import start_postgres_server
from tests.support.service import ADMIN_PASSWORD, Client, ServiceProcess


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as name:
        yield Path(name)


@contextmanager
def settings_for(data_dir: Path, store: str) -> Iterator[Settings]:
    """Settings of a service over an empty store of this kind. A PostgreSQL database is removed afterwards."""
    if store == "sqlite":
        yield Settings(data_dir=data_dir, admin_password=ADMIN_PASSWORD)
        return
    with start_postgres_server({"fsync": "on", "synchronous_commit": "on", "shared_buffers": "256MB"}) as server:
        url = server.create_database()
        yield Settings(data_dir=data_dir, database_url=url, admin_password=ADMIN_PASSWORD)


@contextmanager
def serving(settings: Settings) -> Iterator[ServiceProcess]:
    """A real service, in the environment of an installed one."""
    service = ServiceProcess(settings.data_dir, database_url=settings.database_url)
    with installed_environment():
        service.start()
    try:
        yield service
    finally:
        service.stop()


@contextmanager
def installed_environment() -> Iterator[None]:
    """Let started programs keep compiled modules, which the environment of a test run may forbid."""
    forbidden = os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    try:
        yield
    finally:
        if forbidden is not None:
            os.environ["PYTHONDONTWRITEBYTECODE"] = forbidden


def signed_in(service: ServiceProcess, username: str = "admin") -> Client:
    return service.client().login(username, ADMIN_PASSWORD)


def pid_of(service: ServiceProcess) -> int:
    assert service.process is not None
    return service.process.pid
