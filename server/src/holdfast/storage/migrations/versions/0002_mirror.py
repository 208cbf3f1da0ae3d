"""remotes of rclone, mirrors of repositories"""

import sqlalchemy as sa
from alembic import op

from holdfast.storage import types

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "rclone_remotes",
        sa.Column("id", types.Identifier, autoincrement=True, nullable=False),
        sa.Column("uuid", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("provider", sa.String(length=60), nullable=False),
        sa.Column("options", types.JsonValue, nullable=False),
        sa.Column("secrets", sa.Text(), nullable=True),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.Column("updated_at", types.UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_rclone_remotes")),
        sa.UniqueConstraint("name", name=op.f("uq_rclone_remotes_name")),
        sa.UniqueConstraint("uuid", name=op.f("uq_rclone_remotes_uuid")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "repository_mirrors",
        sa.Column("id", types.Identifier, autoincrement=True, nullable=False),
        sa.Column("repository_id", types.Identifier, nullable=False),
        sa.Column("remote_id", types.Identifier, nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("mode", sa.String(length=20), nullable=False),
        sa.Column("interval_minutes", sa.Integer(), nullable=True),
        sa.Column("bandwidth_limit_kib", sa.Integer(), nullable=True),
        sa.Column("shrink_threshold_percent", sa.Integer(), nullable=False),
        sa.Column("verify", sa.Boolean(), nullable=False),
        sa.Column("last_sync_at", types.UtcDateTime(), nullable=True),
        sa.Column("verified_at", types.UtcDateTime(), nullable=True),
        sa.Column("mirrored", types.JsonValue, nullable=True),
        sa.Column("turn_operation_id", types.Identifier, nullable=True),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.Column("updated_at", types.UtcDateTime(), nullable=False),
        sa.CheckConstraint("mode IN ('after_backup', 'interval', 'manual')", name=op.f("ck_repository_mirrors_mode")),
        sa.ForeignKeyConstraint(["remote_id"], ["rclone_remotes.id"], name=op.f("fk_repository_mirrors_remote_id")),
        sa.ForeignKeyConstraint(
            ["repository_id"],
            ["repositories.id"],
            name=op.f("fk_repository_mirrors_repository_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_repository_mirrors")),
        sa.UniqueConstraint("remote_id", "path", name=op.f("uq_repository_mirrors_remote_id_path")),
        sa.UniqueConstraint("repository_id", name=op.f("uq_repository_mirrors_repository_id")),
        sqlite_autoincrement=True,
    )
    op.add_column("repositories", sa.Column("last_mirror", types.UtcDateTime(), nullable=True))


def downgrade() -> None:
    op.drop_column("repositories", "last_mirror")
    op.drop_table("repository_mirrors")
    op.drop_table("rclone_remotes")
