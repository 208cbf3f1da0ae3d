"""sizes of repositories by day"""

from holdfast.storage.migration_steps import create_table

revision = "0025"
down_revision = "0024"


def upgrade() -> None:
    create_table(
        "repository_sizes",
        """
        repository_id identifier, day date, measured_at time, total_size bigint, unique_size bigint,
        archive_count integer
        """,
        key="repository_id day",
        refers="repository_id repositories.id cascade",
    )
