"""archives that were lost with a newer state of their repository"""

import sqlalchemy as sa
from alembic import op

from holdfast.storage import types

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("archives", sa.Column("lost_at", types.UtcDateTime, nullable=True))


def downgrade() -> None:
    op.drop_column("archives", "lost_at")
