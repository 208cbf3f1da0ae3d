"""Migrates a store to the current schema."""

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, inspect, text

from holdfast.storage.session import Database

if TYPE_CHECKING:
    from alembic.config import Config

MIGRATIONS = Path(__file__).parent / "migrations"
MIGRATION_LOCK = 0x6D696772


class StoreTooNew(Exception):
    """The store was written by a newer version of the service."""


def migrate(database: Database) -> None:
    """Apply missing migrations in one transaction. Raise StoreTooNew if a newer version wrote the store.

    Usually there is nothing to do, and then the migration tool, which takes half a second to load, is not even loaded.
    """
    with database.engine.begin() as connection:
        if not database.is_sqlite:
            connection.execute(text(f"SELECT pg_advisory_xact_lock({MIGRATION_LOCK})"))
        present, known = _present_revision(connection), revisions()
        if present is not None and present not in known:
            raise StoreTooNew("The store was written by a newer version of Holdfast; upgrade the program.")
        if present != known[-1]:
            _upgrade(connection)


def revisions() -> list[str]:
    """Return the names of all revisions, oldest first. Each file name begins with its revision, in ascending order."""
    return sorted(path.name.partition("_")[0] for path in (MIGRATIONS / "versions").glob("[0-9]*_*.py"))


def _present_revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    revision: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return revision


def _upgrade(connection: Connection) -> None:
    from alembic import command

    config = configuration()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def configuration() -> "Config":
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    return config
