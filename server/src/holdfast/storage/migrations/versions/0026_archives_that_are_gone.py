"""archives that are gone"""

from holdfast.storage.migration_steps import create_indexes, create_table

revision = "0026"
down_revision = "0025"


def upgrade() -> None:
    create_table(
        "gone_archives",
        """
        id serial, repository_id identifier, engine_id string(64), name text, series text, start time,
        gone_at time, new_bytes bigint?
        """,
        refers="repository_id repositories.id cascade",
        unique="repository_id engine_id",
    )
    create_indexes("gone_archives", "ix_gone_archives_repository_gone_at: repository_id gone_at id")
    create_indexes("archives", "ix_archives_repository_state: repository_id history_state lost_at id")
