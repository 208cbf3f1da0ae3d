"""archives that were lost with a newer state of their repository"""

from holdfast.storage.migration_steps import add_columns

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    add_columns("archives", "lost_at time?")
