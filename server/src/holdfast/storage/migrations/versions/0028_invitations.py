"""invitations of users"""

from holdfast.storage.migration_steps import add_columns, create_indexes

revision = "0028"
down_revision = "0027"


def upgrade() -> None:
    add_columns("users", "invitation_hash string(64)?, invitation_expires_at time?")
    create_indexes("users", "unique ix_users_invitation_hash: invitation_hash")
