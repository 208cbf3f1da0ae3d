"""scope and expiry of account tokens"""

import sqlalchemy as sa
from alembic import op

from holdfast.storage.migration_steps import add_columns

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    add_columns("account_tokens", "scope string(16)?, expires_at time?")
    op.execute("UPDATE account_tokens SET scope = 'admin'")  # what tokens could do before there were scopes
    with op.batch_alter_table("account_tokens", table_kwargs={"sqlite_autoincrement": True}) as table:
        table.alter_column("scope", existing_type=sa.String(16), nullable=False)
        table.create_check_constraint("scope", "scope IN ('read', 'operate', 'admin')")
