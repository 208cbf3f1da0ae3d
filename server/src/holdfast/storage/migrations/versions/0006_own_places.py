"""the service's own places"""

import sqlalchemy as sa
from alembic import op

from holdfast.storage import types

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "own_places",
        sa.Column("id", types.Identifier, autoincrement=True, nullable=False),
        sa.Column("machine", sa.String(length=200), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("first_seen", types.UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_own_places")),
        sa.UniqueConstraint("machine", "path", name=op.f("uq_own_places_machine_path")),
        sqlite_autoincrement=True,
    )
    op.add_column(
        "repositories", sa.Column("own_sources", types.JsonValue, nullable=False, server_default=sa.text("'[]'"))
    )


def downgrade() -> None:
    op.drop_column("repositories", "own_sources")
    op.drop_table("own_places")
