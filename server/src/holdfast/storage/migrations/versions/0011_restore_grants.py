"""restore grants"""

import sqlalchemy as sa
from alembic import op

from holdfast.storage import types

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "restore_grants",
        sa.Column("id", types.Identifier, nullable=False),
        sa.Column("user_id", types.Identifier, nullable=True),
        sa.Column("role", sa.String(length=16), nullable=True),
        sa.Column("machine_type", sa.String(length=10), nullable=False),
        sa.Column("ssh_connection_id", types.Identifier, nullable=True),
        sa.Column("agent_machine_id", types.Identifier, nullable=True),
        sa.Column("folder", types.JsonValue, nullable=False),
        sa.Column("created_by", sa.String(length=64), nullable=True),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.CheckConstraint("role IN ('viewer', 'operator')", name=op.f("ck_restore_grants_role")),
        sa.CheckConstraint("machine_type IN ('local', 'ssh', 'agent')", name=op.f("ck_restore_grants_machine_type")),
        sa.CheckConstraint("(user_id IS NULL) <> (role IS NULL)", name=op.f("ck_restore_grants_user_or_role")),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_restore_grants_user_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["ssh_connection_id"],
            ["ssh_connections.id"],
            name=op.f("fk_restore_grants_ssh_connection_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["agent_machine_id"],
            ["agent_machines.id"],
            name=op.f("fk_restore_grants_agent_machine_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_restore_grants")),
        sqlite_autoincrement=True,
    )
    for column in ("user_id", "ssh_connection_id", "agent_machine_id"):
        op.create_index(op.f(f"ix_restore_grants_{column}"), "restore_grants", [column])


def downgrade() -> None:
    op.drop_table("restore_grants")
