"""scripts with their versions and secrets"""

from holdfast.storage.migration_steps import create_indexes, create_table

revision = "0020"
down_revision = "0018"


def upgrade() -> None:
    create_table(
        "scripts",
        """
        id serial, name string(200), description text?, place string(10), interpreter json, arguments json,
        installed_as string(100)?, timeout_seconds integer, parameters json, operators_may_use boolean,
        version integer, created_at time, updated_at time, deleted_at time?
        """,
        checks={"place": "place IN ('service', 'ssh', 'agent')"},
    )
    create_indexes("scripts", "unique uq_scripts_name: name where deleted_at IS NULL")
    create_table(
        "script_versions",
        """
        script_id identifier, version integer, content text, sha256 string(64), author_id identifier?,
        author string(200), created_at time
        """,
        key="script_id version",
        refers="script_id scripts.id cascade",
    )
    create_table("script_secrets", "id serial, uuid string(32), sealed text, created_at time", unique="uuid")
