"""scripts with their versions and secrets"""

import sqlalchemy as sa
from alembic import op

from holdfast.storage import types

revision = "0020"
down_revision = "0018"
branch_labels = None
depends_on = None

NOT_DELETED = sa.text("deleted_at IS NULL")


def upgrade() -> None:
    op.create_table(
        "scripts",
        sa.Column("id", types.Identifier, autoincrement=True, nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("place", sa.String(length=10), nullable=False),
        sa.Column("interpreter", types.JsonValue, nullable=False),
        sa.Column("arguments", types.JsonValue, nullable=False),
        sa.Column("installed_as", sa.String(length=100), nullable=True),
        sa.Column("timeout_seconds", sa.Integer(), nullable=False),
        sa.Column("parameters", types.JsonValue, nullable=False),
        sa.Column("operators_may_use", sa.Boolean(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.Column("updated_at", types.UtcDateTime(), nullable=False),
        sa.Column("deleted_at", types.UtcDateTime(), nullable=True),
        sa.CheckConstraint("place IN ('service', 'ssh', 'agent')", name=op.f("ck_scripts_place")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_scripts")),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "uq_scripts_name", "scripts", ["name"], unique=True, sqlite_where=NOT_DELETED, postgresql_where=NOT_DELETED
    )
    op.create_table(
        "script_versions",
        sa.Column("script_id", types.Identifier, nullable=False),
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("author_id", types.Identifier, nullable=True),
        sa.Column("author", sa.String(length=200), nullable=False),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(
            ["script_id"], ["scripts.id"], name=op.f("fk_script_versions_script_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("script_id", "version", name=op.f("pk_script_versions")),
    )
    op.create_table(
        "script_secrets",
        sa.Column("id", types.Identifier, autoincrement=True, nullable=False),
        sa.Column("uuid", sa.String(length=32), nullable=False),
        sa.Column("sealed", sa.Text(), nullable=False),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_script_secrets")),
        sa.UniqueConstraint("uuid", name=op.f("uq_script_secrets_uuid")),
        sqlite_autoincrement=True,
    )


def downgrade() -> None:
    for name in ("script_secrets", "script_versions", "scripts"):
        op.drop_table(name)
