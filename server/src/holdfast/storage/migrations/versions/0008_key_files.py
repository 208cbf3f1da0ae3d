"""the keys of keyfile repositories"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("repositories", sa.Column("keyfile", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("repositories", "keyfile")
