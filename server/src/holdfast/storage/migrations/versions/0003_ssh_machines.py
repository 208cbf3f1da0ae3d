"""ssh machines"""

import sqlalchemy as sa
from alembic import op

from holdfast.storage import types

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "ssh_keys",
        sa.Column("id", types.Identifier, autoincrement=True, nullable=False),
        sa.Column("uuid", sa.String(length=32), nullable=False),
        sa.Column("private_key", sa.Text(), nullable=False),
        sa.Column("public_key", sa.Text(), nullable=False),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ssh_keys")),
        sa.UniqueConstraint("uuid", name=op.f("uq_ssh_keys_uuid")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "ssh_connections",
        sa.Column("id", types.Identifier, autoincrement=True, nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("port", sa.Integer(), nullable=False),
        sa.Column("username", sa.String(length=64), nullable=False),
        sa.Column("engine_path", sa.Text(), nullable=True),
        sa.Column("key_id", types.Identifier, nullable=True),
        sa.Column("host_key", sa.Text(), nullable=True),
        sa.Column("host_key_pinned_at", types.UtcDateTime(), nullable=True),
        sa.Column("state", sa.String(length=10), nullable=False),
        sa.Column("last_test", types.JsonValue, nullable=True),
        sa.Column("last_tested_at", types.UtcDateTime(), nullable=True),
        sa.Column("last_seen_at", types.UtcDateTime(), nullable=True),
        sa.Column("engine_program", sa.Text(), nullable=True),
        sa.Column("engine_version", sa.String(length=60), nullable=True),
        sa.Column("python_program", sa.Text(), nullable=True),
        sa.Column("python_version", sa.String(length=20), nullable=True),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.Column("updated_at", types.UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["key_id"], ["ssh_keys.id"], name=op.f("fk_ssh_connections_key_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ssh_connections")),
        sa.UniqueConstraint("name", name=op.f("uq_ssh_connections_name")),
        sqlite_autoincrement=True,
    )


def downgrade() -> None:
    op.drop_table("ssh_connections")
    op.drop_table("ssh_keys")
