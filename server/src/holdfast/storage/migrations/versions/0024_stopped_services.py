"""services that backups stop and start again"""

import sqlalchemy as sa
from alembic import op

from holdfast.storage import types

revision = "0024"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "stopped_services",
        sa.Column("repository_id", types.Identifier, autoincrement=False, nullable=False),
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.ForeignKeyConstraint(
            ["repository_id"],
            ["repositories.id"],
            name=op.f("fk_stopped_services_repository_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("repository_id", "position", name=op.f("pk_stopped_services")),
    )
    with op.batch_alter_table("agent_machines") as batch:
        batch.add_column(sa.Column("unstarted_services", types.JsonValue, nullable=False, server_default="[]"))


def downgrade() -> None:
    with op.batch_alter_table("agent_machines") as batch:
        batch.drop_column("unstarted_services")
    op.drop_table("stopped_services")
