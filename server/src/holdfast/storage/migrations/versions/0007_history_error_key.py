"""why an archive could not be indexed, as a key"""

from holdfast.storage.migration_steps import add_columns

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    add_columns("archives", "history_error_key string(64)?")
