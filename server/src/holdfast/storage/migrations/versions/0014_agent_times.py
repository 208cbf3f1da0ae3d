"""when agents were last heard"""

from holdfast.storage.migration_steps import create_table

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    create_table("agent_times", "number identifier, seconds bytes", key="number")
