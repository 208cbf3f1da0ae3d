"""protected archives, and since when removals are recorded"""

from datetime import UTC, datetime

import sqlalchemy as sa
from alembic import op

from holdfast.storage import types

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("archives", sa.Column("protected_at", types.UtcDateTime(), nullable=True))
    op.add_column("repositories", sa.Column("removals_recorded_since", types.UtcDateTime(), nullable=True))
    repositories = sa.table("repositories", sa.column("removals_recorded_since", types.UtcDateTime()))
    op.execute(repositories.update().values(removals_recorded_since=datetime.now(UTC)))


def downgrade() -> None:
    op.drop_column("repositories", "removals_recorded_since")
    op.drop_column("archives", "protected_at")
