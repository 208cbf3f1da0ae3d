"""restore grants"""

from holdfast.storage.migration_steps import create_index, create_table

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    create_table(
        "restore_grants",
        """
        id serial, user_id identifier?, role string(16)?, machine_type string(10), ssh_connection_id identifier?,
        agent_machine_id identifier?, folder json, created_by string(64)?, created_at time
        """,
        checks={
            "role": "role IN ('viewer', 'operator')",
            "machine_type": "machine_type IN ('local', 'ssh', 'agent')",
            "user_or_role": "(user_id IS NULL) <> (role IS NULL)",
        },
        refers="user_id users.id cascade, ssh_connection_id ssh_connections.id cascade, agent_machine_id agent_machines.id cascade",
    )
    create_index("ix_restore_grants_user_id", "restore_grants", "user_id")
    create_index("ix_restore_grants_ssh_connection_id", "restore_grants", "ssh_connection_id")
    create_index("ix_restore_grants_agent_machine_id", "restore_grants", "agent_machine_id")
