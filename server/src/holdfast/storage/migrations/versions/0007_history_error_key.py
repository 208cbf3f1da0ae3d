"""why an archive could not be indexed, as a key"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("archives", sa.Column("history_error_key", sa.String(64), nullable=True))


def downgrade() -> None:
    op.drop_column("archives", "history_error_key")
