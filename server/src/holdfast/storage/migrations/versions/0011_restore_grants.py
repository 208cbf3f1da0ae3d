"""restore grants"""

from holdfast.storage.migration_steps import create_indexes, create_table

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
        refers="user_id users.id cascade, ssh_connection_id ssh_connections.id cascade, agent_machine_id "
        "agent_machines.id cascade",
    )
    create_indexes(
        "restore_grants",
        """
        ix_restore_grants_user_id: user_id
        ix_restore_grants_ssh_connection_id: ssh_connection_id
        ix_restore_grants_agent_machine_id: agent_machine_id
        """,
    )
