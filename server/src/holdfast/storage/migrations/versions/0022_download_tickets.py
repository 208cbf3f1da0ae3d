"""tickets for downloads without a credential"""

import sqlalchemy as sa
from alembic import op

from holdfast.storage import types

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "download_tickets",
        sa.Column("id", types.Identifier, autoincrement=True, nullable=False),
        sa.Column("token_hash", sa.String(length=64), nullable=False),
        sa.Column("user_id", types.Identifier, nullable=False),
        sa.Column("session_id", types.Identifier, nullable=True),
        sa.Column("account_token_id", types.Identifier, nullable=True),
        sa.Column("wanted", types.JsonValue, nullable=False),
        sa.Column("expires_at", types.UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name=op.f("fk_download_tickets_user_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_download_tickets")),
        sa.UniqueConstraint("token_hash", name=op.f("uq_download_tickets_token_hash")),
    )
    op.create_index(op.f("ix_download_tickets_user_id"), "download_tickets", ["user_id"])
    op.create_index(op.f("ix_download_tickets_expires_at"), "download_tickets", ["expires_at"])


def downgrade() -> None:
    op.drop_table("download_tickets")
