"""databases that are dumped into archives"""

import sqlalchemy as sa
from alembic import op

from holdfast.storage import types

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "dumped_databases",
        sa.Column("id", types.Identifier, autoincrement=True, nullable=False),
        sa.Column("uuid", sa.String(length=32), nullable=False),
        sa.Column("repository_id", types.Identifier, nullable=False),
        sa.Column("name", sa.String(length=60), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("options", types.JsonValue, nullable=False),
        sa.Column("password", sa.Text(), nullable=True),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.Column("updated_at", types.UtcDateTime(), nullable=False),
        sa.CheckConstraint(
            "kind IN ('postgresql', 'postgresql_globals', 'mysql', 'sqlite')", name=op.f("ck_dumped_databases_kind")
        ),
        sa.ForeignKeyConstraint(
            ["repository_id"],
            ["repositories.id"],
            name=op.f("fk_dumped_databases_repository_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_dumped_databases")),
        sa.UniqueConstraint("repository_id", "name", name=op.f("uq_dumped_databases_repository_id_name")),
        sa.UniqueConstraint("uuid", name=op.f("uq_dumped_databases_uuid")),
        sqlite_autoincrement=True,
    )


def downgrade() -> None:
    op.drop_table("dumped_databases")
