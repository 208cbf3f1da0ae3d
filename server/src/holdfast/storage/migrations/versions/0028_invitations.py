"""invitations of users"""

from holdfast.storage.migration_steps import add_columns, create_index

revision = "0028"
down_revision = "0027"


def upgrade() -> None:
    add_columns("users", "invitation_hash string(64)?, invitation_expires_at time?")
    create_index("ix_users_invitation_hash", "users", "invitation_hash", is_unique=True)
