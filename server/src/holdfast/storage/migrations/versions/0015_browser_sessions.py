"""browser sessions"""

from holdfast.storage.migration_steps import add_columns, create_indexes

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    add_columns("login_sessions", "refresh_hash string(64)?, earlier_refresh_hash string(64)?, refreshed_at time?")
    create_indexes(
        "login_sessions",
        """
        unique ix_login_sessions_refresh_hash: refresh_hash
        ix_login_sessions_earlier_refresh_hash: earlier_refresh_hash
        """,
    )
