"""browser sessions"""

from holdfast.storage.migration_steps import add_columns, create_index

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    add_columns("login_sessions", "refresh_hash string(64)?, earlier_refresh_hash string(64)?, refreshed_at time?")
    create_index("ix_login_sessions_refresh_hash", "login_sessions", "refresh_hash", is_unique=True)
    create_index("ix_login_sessions_earlier_refresh_hash", "login_sessions", "earlier_refresh_hash")
