"""repositories that the engine itself keeps on a remote"""

import sqlalchemy as sa
from alembic import op

from holdfast.storage import types

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("repositories", sa.Column("rclone_remote_id", types.Identifier, nullable=True))


def downgrade() -> None:
    op.drop_column("repositories", "rclone_remote_id")
