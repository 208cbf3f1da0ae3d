"""notifications"""

import sqlalchemy as sa
from alembic import op

from holdfast.storage import types

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "deliveries",
        sa.Column("id", types.Identifier, autoincrement=True, nullable=False),
        sa.Column("uuid", sa.String(length=32), nullable=False),
        sa.Column("destination_id", types.Identifier, nullable=False),
        sa.Column("rule_id", types.Identifier, nullable=True),
        sa.Column("type", sa.String(length=40), nullable=False),
        sa.Column("severity", sa.Integer(), nullable=False),
        sa.Column("items", types.JsonValue, nullable=False),
        sa.Column("more", sa.Integer(), nullable=False),
        sa.Column("body", types.JsonValue, nullable=True),
        sa.Column("state", sa.String(length=10), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.Column("next_attempt_at", types.UtcDateTime(), nullable=False),
        sa.Column("first_attempt_at", types.UtcDateTime(), nullable=True),
        sa.Column("lease_until", types.UtcDateTime(), nullable=True),
        sa.Column("lease", sa.String(length=32), nullable=True),
        sa.Column("ended_at", types.UtcDateTime(), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("once", sa.String(length=160), nullable=True),
        sa.CheckConstraint(
            "state IN ('waiting', 'sending', 'sent', 'failed', 'cancelled')", name=op.f("ck_deliveries_state")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_deliveries")),
        sa.UniqueConstraint("once", name=op.f("uq_deliveries_once")),
        sa.UniqueConstraint("uuid", name=op.f("uq_deliveries_uuid")),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_deliveries_destination", "deliveries", ["destination_id", "rule_id", "created_at"], unique=False
    )
    op.create_index("ix_deliveries_ended_at", "deliveries", ["ended_at"], unique=False)
    op.create_index(
        "ix_deliveries_unfinished",
        "deliveries",
        ["destination_id", "id"],
        unique=False,
        sqlite_where=sa.text("state IN ('waiting', 'sending')"),
        postgresql_where=sa.text("state IN ('waiting', 'sending')"),
    )
    op.create_table(
        "incidents",
        sa.Column("id", types.Identifier, autoincrement=True, nullable=False),
        sa.Column("key", sa.String(length=120), nullable=False),
        sa.Column("event", sa.String(length=40), nullable=False),
        sa.Column("severity", sa.Integer(), nullable=False),
        sa.Column("repository_id", types.Identifier, nullable=True),
        sa.Column("item", types.JsonValue, nullable=False),
        sa.Column("error_key", sa.String(length=80), nullable=True),
        sa.Column("opened_at", types.UtcDateTime(), nullable=False),
        sa.Column("last_at", types.UtcDateTime(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("closed_at", types.UtcDateTime(), nullable=True),
        sa.Column("remind_at", types.UtcDateTime(), nullable=True),
        sa.Column("notices", types.JsonValue, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_incidents")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_incidents_closed_at", "incidents", ["closed_at"], unique=False)
    op.create_index(
        "ix_incidents_remind_at",
        "incidents",
        ["remind_at"],
        unique=False,
        sqlite_where=sa.text("closed_at IS NULL"),
        postgresql_where=sa.text("closed_at IS NULL"),
    )
    op.create_index(
        "uq_incidents_open",
        "incidents",
        ["key"],
        unique=True,
        sqlite_where=sa.text("closed_at IS NULL"),
        postgresql_where=sa.text("closed_at IS NULL"),
    )
    op.create_table(
        "notification_destinations",
        sa.Column("id", types.Identifier, autoincrement=True, nullable=False),
        sa.Column("uuid", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("kind", sa.String(length=10), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("disabled_reason", sa.String(length=80), nullable=True),
        sa.Column("options", types.JsonValue, nullable=False),
        sa.Column("secrets", sa.Text(), nullable=True),
        sa.Column("last_sent_at", types.UtcDateTime(), nullable=True),
        sa.Column("failing_since", types.UtcDateTime(), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.Column("updated_at", types.UtcDateTime(), nullable=False),
        sa.CheckConstraint(
            "kind IN ('webhook', 'smtp', 'apprise', 'ping')", name=op.f("ck_notification_destinations_kind")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notification_destinations")),
        sa.UniqueConstraint("name", name=op.f("uq_notification_destinations_name")),
        sa.UniqueConstraint("uuid", name=op.f("uq_notification_destinations_uuid")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "notification_rules",
        sa.Column("id", types.Identifier, autoincrement=True, nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("events", types.JsonValue, nullable=False),
        sa.Column("least_severity", sa.Integer(), nullable=False),
        sa.Column("scope", types.JsonValue, nullable=False),
        sa.Column("send", sa.String(length=10), nullable=False),
        sa.Column("remind_hours", sa.Integer(), nullable=False),
        sa.Column("group_seconds", sa.Integer(), nullable=False),
        sa.Column("quiet", types.JsonValue, nullable=True),
        sa.Column("destination_ids", types.JsonValue, nullable=True),
        sa.Column("template", types.JsonValue, nullable=True),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.Column("updated_at", types.UtcDateTime(), nullable=False),
        sa.CheckConstraint("send IN ('change', 'every')", name=op.f("ck_notification_rules_send")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notification_rules")),
        sa.UniqueConstraint("name", name=op.f("uq_notification_rules_name")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "reports",
        sa.Column("id", types.Identifier, autoincrement=True, nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("period", sa.String(length=10), nullable=False),
        sa.Column("weekday", sa.Integer(), nullable=True),
        sa.Column("at", sa.String(length=5), nullable=False),
        sa.Column("timezone", sa.String(length=64), nullable=False),
        sa.Column("scope", types.JsonValue, nullable=False),
        sa.Column("destination_ids", types.JsonValue, nullable=True),
        sa.Column("next_at", types.UtcDateTime(), nullable=False),
        sa.Column("last_at", types.UtcDateTime(), nullable=True),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.Column("updated_at", types.UtcDateTime(), nullable=False),
        sa.CheckConstraint("period IN ('daily', 'weekly')", name=op.f("ck_reports_period")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_reports")),
        sa.UniqueConstraint("name", name=op.f("uq_reports_name")),
        sqlite_autoincrement=True,
    )


def downgrade() -> None:
    for table in ("reports", "notification_rules", "notification_destinations", "incidents", "deliveries"):
        op.drop_table(table)
