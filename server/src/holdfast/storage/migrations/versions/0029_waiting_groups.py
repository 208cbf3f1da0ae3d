"""waiting operations by the group whose limit counts them, and those that wait for a runner"""

from holdfast.storage.migration_steps import create_indexes

revision = "0029"
down_revision = "0028"


def upgrade() -> None:
    create_indexes(
        "operations",
        """
        ix_operations_waiting_group: status limit_group queue_rank id where status = 'pending' AND limit_group IS NOT NULL
        ix_operations_waiting_here: status queue_rank id where status = 'pending' AND executor = 'runner'
        """,  # noqa: E501
    )
