"""The whole service, composed but not started, on which the architecture tests check their rules."""

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

from fastapi import FastAPI

from holdfast.composition import Service
from holdfast.settings import Settings
from holdfast.storage.session import Database
from tests.support.stores import sqlite_template


@cache
def composed_service() -> Service:
    folder = tempfile.TemporaryDirectory(prefix="holdfast-composed-")
    atexit.register(folder.cleanup)
    # Explicit values, so that the environment in which the tests run has no effect.
    settings = Settings(data_dir=Path(folder.name), database_url=None, role="all")
    shutil.copyfile(sqlite_template(), Path(folder.name) / "holdfast.db")
    return Service(settings, Database(settings.store_url))


@cache
def composed_app() -> FastAPI:
    return composed_service().app()
