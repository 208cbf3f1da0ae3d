"""when agents were last heard"""

import sqlalchemy as sa
from alembic import op

from holdfast.storage import types

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "agent_times",
        sa.Column("number", types.Identifier, autoincrement=False, nullable=False),
        sa.Column("seconds", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_agent_times")),
    )


def downgrade() -> None:
    op.drop_table("agent_times")
