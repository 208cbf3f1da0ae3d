"""archives that are gone"""

import sqlalchemy as sa
from alembic import op

from holdfast.storage import types

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "gone_archives",
        sa.Column("id", types.Identifier, autoincrement=True, nullable=False),
        sa.Column("repository_id", types.Identifier, nullable=False),
        sa.Column("engine_id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("series", sa.Text(), nullable=False),
        sa.Column("start", types.UtcDateTime(), nullable=False),
        sa.Column("gone_at", types.UtcDateTime(), nullable=False),
        sa.Column("new_bytes", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["repository_id"],
            ["repositories.id"],
            name=op.f("fk_gone_archives_repository_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_gone_archives")),
        sa.UniqueConstraint("repository_id", "engine_id", name=op.f("uq_gone_archives_repository_id_engine_id")),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("gone_archives", schema=None) as batch_op:
        batch_op.create_index("ix_gone_archives_repository_gone_at", ["repository_id", "gone_at", "id"], unique=False)
    op.create_index(
        "ix_archives_repository_state", "archives", ["repository_id", "history_state", "lost_at", "id"], unique=False
    )


def downgrade() -> None:
    op.drop_index("ix_archives_repository_state", "archives")
    op.drop_table("gone_archives")
