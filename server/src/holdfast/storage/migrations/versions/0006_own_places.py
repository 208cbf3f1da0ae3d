"""the service's own places"""

from holdfast.storage.migration_steps import add_columns, create_table

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    create_table("own_places", "id serial, machine string(200), path text, first_seen time", unique="machine path")
    add_columns("repositories", "own_sources json", default="[]")
