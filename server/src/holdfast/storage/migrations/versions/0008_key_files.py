"""the keys of keyfile repositories"""

from holdfast.storage.migration_steps import add_columns, drop_columns

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    add_columns("repositories", "keyfile text?")


def downgrade() -> None:
    drop_columns("repositories", "keyfile")
