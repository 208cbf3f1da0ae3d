"""protected archives, and since when removals are recorded"""

from datetime import UTC, datetime

import sqlalchemy as sa
from alembic import op

from holdfast.storage import types
from holdfast.storage.migration_steps import add_columns

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    add_columns("archives", "protected_at time?")
    add_columns("repositories", "removals_recorded_since time?")
    repositories = sa.table("repositories", sa.column("removals_recorded_since", types.UtcDateTime()))
    op.execute(repositories.update().values(removals_recorded_since=datetime.now(UTC)))
