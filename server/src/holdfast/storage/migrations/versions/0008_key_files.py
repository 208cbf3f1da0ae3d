"""the keys of keyfile repositories"""

from holdfast.storage.migration_steps import add_columns

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    add_columns("repositories", "keyfile text?")
