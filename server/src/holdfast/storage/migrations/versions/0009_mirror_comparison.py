"""how a mirror was compared with its repository"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("repository_mirrors", sa.Column("verify_sample", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("repository_mirrors", sa.Column("verified_by", sa.String(10), nullable=True))


def downgrade() -> None:
    op.drop_column("repository_mirrors", "verified_by")
    op.drop_column("repository_mirrors", "verify_sample")
