"""Brings a store to the present schema."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text

from holdfast.storage.session import Database

MIGRATIONS = Path(__file__).parent / "migrations"
MIGRATION_LOCK = 0x6D696772


class StoreTooNew(Exception):
    """The store was written by a newer version of the service."""


def migrate(database: Database) -> None:
    """Apply what is missing, in one transaction. Raise StoreTooNew for a store of a newer version."""
    config = configuration()
    with database.engine.begin() as connection:
        if not database.is_sqlite:
            connection.execute(text(f"SELECT pg_advisory_xact_lock({MIGRATION_LOCK})"))
        present = MigrationContext.configure(connection).get_current_revision()
        script = ScriptDirectory.from_config(config)
        known = {revision.revision for revision in script.walk_revisions()}
        if present is not None and present not in known:
            raise StoreTooNew("The store was written by a newer version of Holdfast; upgrade the program.")
        if present != script.get_current_head():
            config.attributes["connection"] = connection
            command.upgrade(config, "head")


def configuration() -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    return config
