"""remotes of rclone, mirrors of repositories"""

from holdfast.storage.migration_steps import add_columns, create_table

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    create_table(
        "rclone_remotes",
        """
        id serial, uuid string(32), name string(64), provider string(60), options json, secrets text?,
        created_at time, updated_at time
        """,
        unique="name, uuid",
    )
    create_table(
        "repository_mirrors",
        """
        id serial, repository_id identifier, remote_id identifier, path text, mode string(20),
        interval_minutes integer?, bandwidth_limit_kib integer?, shrink_threshold_percent integer,
        verify boolean, last_sync_at time?, verified_at time?, mirrored json?, turn_operation_id identifier?,
        created_at time, updated_at time
        """,
        checks={"mode": "mode IN ('after_backup', 'interval', 'manual')"},
        refers="remote_id rclone_remotes.id, repository_id repositories.id cascade",
        unique="remote_id path, repository_id",
    )
    add_columns("repositories", "last_mirror time?")
