"""services that backups stop and start again"""

from holdfast.storage.migration_steps import add_columns, create_table

revision = "0024"
down_revision = "0022"


def upgrade() -> None:
    create_table(
        "stopped_services",
        "repository_id identifier, position integer, name string(255)",
        key="repository_id position",
        refers="repository_id repositories.id cascade",
    )
    add_columns("agent_machines", "unstarted_services json", default="[]")
