"""bytes of the parts of an agent's result"""

from holdfast.storage.migration_steps import add_columns

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    add_columns("agent_jobs", "part_bytes bigint", default="0")
