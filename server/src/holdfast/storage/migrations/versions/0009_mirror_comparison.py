"""how a mirror was compared with its repository"""

from holdfast.storage.migration_steps import add_columns

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    add_columns("repository_mirrors", "verify_sample integer", default="0")
    add_columns("repository_mirrors", "verified_by string(10)?")
