"""browser sessions"""

import sqlalchemy as sa
from alembic import op

from holdfast.storage import types

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

TABLE = "login_sessions"


def upgrade() -> None:
    op.add_column(TABLE, sa.Column("refresh_hash", sa.String(length=64), nullable=True))
    op.add_column(TABLE, sa.Column("earlier_refresh_hash", sa.String(length=64), nullable=True))
    op.add_column(TABLE, sa.Column("refreshed_at", types.UtcDateTime(), nullable=True))
    op.create_index(op.f("ix_login_sessions_refresh_hash"), TABLE, ["refresh_hash"], unique=True)
    op.create_index(op.f("ix_login_sessions_earlier_refresh_hash"), TABLE, ["earlier_refresh_hash"])


def downgrade() -> None:
    op.drop_index(op.f("ix_login_sessions_earlier_refresh_hash"), TABLE)
    op.drop_index(op.f("ix_login_sessions_refresh_hash"), TABLE)
    for column in ("refreshed_at", "earlier_refresh_hash", "refresh_hash"):
        op.drop_column(TABLE, column)
