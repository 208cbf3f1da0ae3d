"""tickets for downloads without a credential"""

from holdfast.storage.migration_steps import create_indexes, create_table

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    create_table(
        "download_tickets",
        """
        id counted, token_hash string(64), user_id identifier, session_id identifier?,
        account_token_id identifier?, wanted json, expires_at time
        """,
        refers="user_id users.id cascade",
        unique="token_hash",
    )
    create_indexes(
        "download_tickets",
        """
        ix_download_tickets_user_id: user_id
        ix_download_tickets_expires_at: expires_at
        """,
    )
