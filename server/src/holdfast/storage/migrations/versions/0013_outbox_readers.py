"""outbox readers"""

from holdfast.storage.migration_steps import create_table

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    create_table("outbox_readers", "name string(60), position identifier, seen_at time", key="name")
