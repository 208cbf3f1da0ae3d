"""repositories that the engine itself keeps on a remote"""

from holdfast.storage.migration_steps import add_columns

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    add_columns("repositories", "rclone_remote_id identifier?")
