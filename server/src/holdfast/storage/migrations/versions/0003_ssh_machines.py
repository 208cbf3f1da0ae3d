"""ssh machines"""

from holdfast.storage.migration_steps import create_table

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    create_table(
        "ssh_keys", "id serial, uuid string(32), private_key text, public_key text, created_at time", unique="uuid"
    )
    create_table(
        "ssh_connections",
        """
        id serial, name string(200), host string(255), port integer, username string(64), engine_path text?,
        key_id identifier?, host_key text?, host_key_pinned_at time?, state string(10), last_test json?,
        last_tested_at time?, last_seen_at time?, engine_program text?, engine_version string(60)?,
        python_program text?, python_version string(20)?, created_at time, updated_at time
        """,
        refers="key_id ssh_keys.id",
        unique="name",
    )
