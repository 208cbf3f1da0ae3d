"""databases that are dumped into archives"""

from holdfast.storage.migration_steps import create_table

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    create_table(
        "dumped_databases",
        """
        id serial, uuid string(32), repository_id identifier, name string(60), kind string(20), options json,
        password text?, created_at time, updated_at time
        """,
        checks={"kind": "kind IN ('postgresql', 'postgresql_globals', 'mysql', 'sqlite')"},
        refers="repository_id repositories.id cascade",
        unique="repository_id name, uuid",
    )
