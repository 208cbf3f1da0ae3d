"""alarms, their thresholds and measurements; totals of metrics; tokens that read metrics alone"""

import sqlalchemy as sa
from alembic import op

from holdfast.storage import types

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

DAMAGED = sa.text("error_key = 'engine.damaged'")
NOT_CLEARED = sa.text("state <> 'cleared'")


def upgrade() -> None:
    op.create_table(
        "alarms",
        sa.Column("id", types.Identifier, autoincrement=True, nullable=False),
        sa.Column("kind", sa.String(length=40), nullable=False),
        sa.Column("subject", sa.String(length=60), nullable=False),
        sa.Column("repository_id", types.Identifier, nullable=True),
        sa.Column("severity", sa.String(length=10), nullable=False),
        sa.Column("state", sa.String(length=10), nullable=False),
        sa.Column("since", types.UtcDateTime(), nullable=False),
        sa.Column("seen_at", types.UtcDateTime(), nullable=False),
        sa.Column("known", sa.Boolean(), nullable=False),
        sa.Column("clearing_since", types.UtcDateTime(), nullable=True),
        sa.Column("cleared_at", types.UtcDateTime(), nullable=True),
        sa.Column("evidence", types.JsonValue, nullable=False),
        sa.Column("acknowledged_by", sa.String(length=64), nullable=True),
        sa.Column("acknowledged_at", types.UtcDateTime(), nullable=True),
        sa.Column("acknowledged_until", types.UtcDateTime(), nullable=True),
        sa.Column("comment", sa.Text(), nullable=True),
        sa.CheckConstraint("state IN ('watched', 'open', 'cleared')", name=op.f("ck_alarms_state")),
        sa.CheckConstraint("severity IN ('warning', 'critical')", name=op.f("ck_alarms_severity")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_alarms")),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "uq_alarms_not_cleared",
        "alarms",
        ["kind", "subject"],
        unique=True,
        sqlite_where=NOT_CLEARED,
        postgresql_where=NOT_CLEARED,
    )
    op.create_index("ix_alarms_state", "alarms", ["state", "id"])
    op.create_index("ix_alarms_repository", "alarms", ["repository_id", "state", "id"])
    op.create_index("ix_alarms_cleared_at", "alarms", ["cleared_at"])
    op.create_table(
        "alarm_overrides",
        sa.Column("repository_id", types.Identifier, autoincrement=False, nullable=False),
        sa.Column("thresholds", types.JsonValue, nullable=False),
        sa.ForeignKeyConstraint(
            ["repository_id"],
            ["repositories.id"],
            name=op.f("fk_alarm_overrides_repository_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("repository_id", name=op.f("pk_alarm_overrides")),
    )
    op.create_table(
        "storage_days",
        sa.Column("repository_id", types.Identifier, autoincrement=False, nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("seen_at", types.UtcDateTime(), nullable=False),
        sa.Column("free_bytes", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["repository_id"], ["repositories.id"], name=op.f("fk_storage_days_repository_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("repository_id", "day", name=op.f("pk_storage_days")),
    )
    op.create_table(
        "metric_totals",
        sa.Column("name", sa.String(length=120), nullable=False),
        sa.Column("labels", sa.String(length=600), nullable=False),
        sa.Column("value", sa.Float(53), nullable=False),
        sa.PrimaryKeyConstraint("name", "labels", name=op.f("pk_metric_totals")),
    )
    op.create_index(
        "ix_operations_damaged",
        "operations",
        ["repository_id", "id"],
        sqlite_where=DAMAGED,
        postgresql_where=DAMAGED,
    )
    _allow_scopes("read", "operate", "admin", "metrics")


def downgrade() -> None:
    op.execute("DELETE FROM account_tokens WHERE scope = 'metrics'")
    _allow_scopes("read", "operate", "admin")
    op.drop_index("ix_operations_damaged", table_name="operations")
    for name in ("metric_totals", "storage_days", "alarm_overrides", "alarms"):
        op.drop_table(name)


def _allow_scopes(*scopes: str) -> None:
    name = op.f("ck_account_tokens_scope")
    words = ", ".join(f"'{scope}'" for scope in scopes)
    with op.batch_alter_table("account_tokens", table_kwargs={"sqlite_autoincrement": True}) as table:
        table.drop_constraint(name, type_="check")
        table.create_check_constraint(name, f"scope IN ({words})")
