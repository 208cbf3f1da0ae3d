"""scope and expiry of account tokens"""

import sqlalchemy as sa
from alembic import op

from holdfast.storage import types

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("account_tokens", sa.Column("scope", sa.String(16), nullable=True))
    op.add_column("account_tokens", sa.Column("expires_at", types.UtcDateTime(), nullable=True))
    op.execute("UPDATE account_tokens SET scope = 'admin'")  # what tokens could do before there were scopes
    with op.batch_alter_table("account_tokens", table_kwargs={"sqlite_autoincrement": True}) as table:
        table.alter_column("scope", existing_type=sa.String(16), nullable=False)
        table.create_check_constraint("scope", "scope IN ('read', 'operate', 'admin')")


def downgrade() -> None:
    with op.batch_alter_table("account_tokens", table_kwargs={"sqlite_autoincrement": True}) as table:
        table.drop_constraint("scope", type_="check")
        table.drop_column("expires_at")
        table.drop_column("scope")
