"""Empty stores of both kinds with the current schema, cheap enough for one per test."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import event

from holdfast.storage.migrate import migrate
from holdfast.storage.session import Database
from tests.support.made_once import made_once
from tests.support.postgres import postgres_server

KINDS = ("sqlite", "postgresql")


@contextmanager
def a_store(kind: str, folder: Path) -> Iterator[Database]:
    """An empty store; for SQLite, in the given folder."""
    with a_store_url(kind, folder) as url:
        database = Database(url)
        try:
            yield database
        finally:
            database.dispose()


@contextmanager
def a_store_url(kind: str, folder: Path) -> Iterator[str]:
    """The URL of an empty store, for tests that start processes over it."""
    if kind == "sqlite":
        shutil.copyfile(sqlite_template(), folder / "holdfast.db")
        yield f"sqlite:///{folder / 'holdfast.db'}"
        return
    with postgres_server().database(postgres_template()) as url:
        yield url


@contextmanager
def statements(database: Database) -> Iterator[list[str]]:
    """The statements that reach the store during the block."""
    executed: list[str] = []
    engines = {database.engine, database._reader}

    def note(_connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        executed.append(statement)

    for engine in engines:
        event.listen(engine, "before_cursor_execute", note)
    try:
        yield executed
    finally:
        for engine in engines:
            event.remove(engine, "before_cursor_execute", note)


def postgres_template() -> str:
    """The name of a database with the current schema, on this process's server."""
    return postgres_server().ensure_template("migrated", _migrated)


@made_once
def sqlite_template() -> Path:
    """The file of an empty store with the current schema."""
    # The folder lives as long as this process: a reference to it is kept.
    folder = tempfile.TemporaryDirectory(prefix="holdfast-template-")
    _keep.append(folder)
    template = Path(folder.name) / "template.db"
    _migrated(f"sqlite:///{template}")
    return template


_keep: list["tempfile.TemporaryDirectory[str]"] = []


def _migrated(url: str) -> None:
    database = Database(url)
    migrate(database)
    database.dispose()
