"""Write the Alembic revision that brings the store from the last revision to the models: `new_migration.py MESSAGE`."""

import sys
import tempfile
from pathlib import Path

from alembic import command

import holdfast.composition  # noqa: F401 -- imports every table
from holdfast.storage.migrate import configuration, migrate
from holdfast.storage.session import Database


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        database = Database(f"sqlite:///{folder}/store.db")
        migrate(database)
        config = configuration()
        with database.engine.begin() as connection:
            config.attributes["connection"] = connection
            versions = Path(config.get_main_option("script_location") or "") / "versions"
            number = max(int(file.name[:4]) for file in versions.glob("[0-9]*.py")) + 1
            command.revision(config, message=sys.argv[1], autogenerate=True, rev_id=f"{number:04d}")


if __name__ == "__main__":
    main()
