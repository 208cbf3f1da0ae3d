"""invitations of users"""

import sqlalchemy as sa
from alembic import op

from holdfast.storage import types

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("users", sa.Column("invitation_hash", sa.String(length=64), nullable=True))
    op.add_column("users", sa.Column("invitation_expires_at", types.UtcDateTime(), nullable=True))
    op.create_index("ix_users_invitation_hash", "users", ["invitation_hash"], unique=True)


def downgrade() -> None:
    op.drop_index("ix_users_invitation_hash", "users")
    op.drop_column("users", "invitation_expires_at")
    op.drop_column("users", "invitation_hash")
