"""outbox readers"""

import sqlalchemy as sa
from alembic import op

from holdfast.storage import types

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "outbox_readers",
        sa.Column("name", sa.String(length=60), nullable=False),
        sa.Column("position", types.Identifier, nullable=False),
        sa.Column("seen_at", types.UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_outbox_readers")),
    )


def downgrade() -> None:
    op.drop_table("outbox_readers")
