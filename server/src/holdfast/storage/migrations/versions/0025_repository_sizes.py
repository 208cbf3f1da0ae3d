"""sizes of repositories by day"""

import sqlalchemy as sa
from alembic import op

from holdfast.storage import types

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "repository_sizes",
        sa.Column("repository_id", types.Identifier, autoincrement=False, nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("measured_at", types.UtcDateTime(), nullable=False),
        sa.Column("total_size", sa.BigInteger(), nullable=False),
        sa.Column("unique_size", sa.BigInteger(), nullable=False),
        sa.Column("archive_count", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["repository_id"],
            ["repositories.id"],
            name=op.f("fk_repository_sizes_repository_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("repository_id", "day", name=op.f("pk_repository_sizes")),
    )


def downgrade() -> None:
    op.drop_table("repository_sizes")
