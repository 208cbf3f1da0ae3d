"""schedules, their runs, blackouts; labels, storage and exported keys of repositories; what dependants need"""

import sqlalchemy as sa
from alembic import op

from holdfast.storage import types

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "blackouts",
        sa.Column("id", types.Identifier, autoincrement=True, nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("first_day", sa.Date(), nullable=False),
        sa.Column("last_day", sa.Date(), nullable=False),
        sa.Column("timezone", sa.String(length=64), nullable=False),
        sa.Column("yearly", sa.Boolean(), nullable=False),
        sa.Column("labels", types.JsonValue, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_blackouts")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "schedule_runs",
        sa.Column("id", types.Identifier, autoincrement=True, nullable=False),
        sa.Column("schedule_id", types.Identifier, nullable=False),
        sa.Column("repository_id", types.Identifier, nullable=False),
        sa.Column("due_at", types.UtcDateTime(), nullable=False),
        sa.Column("due_until", types.UtcDateTime(), nullable=True),
        sa.Column("due_count", sa.Integer(), nullable=False),
        sa.Column("origin", sa.String(length=20), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("start_at", types.UtcDateTime(), nullable=False),
        sa.Column("look_at", types.UtcDateTime(), nullable=True),
        sa.Column("waiting_for", sa.String(length=20), nullable=True),
        sa.Column("outcome", sa.String(length=10), nullable=False),
        sa.Column("reason", sa.String(length=40), nullable=True),
        sa.Column("reason_operation_id", types.Identifier, nullable=True),
        sa.Column("run_id", sa.String(length=32), nullable=True),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("steps", types.JsonValue, nullable=False),
        sa.Column("options", types.JsonValue, nullable=False),
        sa.Column("result", sa.String(length=30), nullable=True),
        sa.Column("error_key", sa.String(length=80), nullable=True),
        sa.Column("released_at", types.UtcDateTime(), nullable=True),
        sa.Column("settled_at", types.UtcDateTime(), nullable=True),
        sa.Column("voided_at", types.UtcDateTime(), nullable=True),
        sa.CheckConstraint("origin IN ('calendar', 'availability', 'manual')", name=op.f("ck_schedule_runs_origin")),
        sa.CheckConstraint("outcome IN ('waiting', 'ran', 'skipped', 'missed')", name=op.f("ck_schedule_runs_outcome")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_schedule_runs")),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_schedule_runs_look_at",
        "schedule_runs",
        ["look_at"],
        unique=False,
        sqlite_where=sa.text("look_at IS NOT NULL"),
        postgresql_where=sa.text("look_at IS NOT NULL"),
    )
    op.create_index(
        "ix_schedule_runs_open",
        "schedule_runs",
        ["schedule_id", "repository_id"],
        unique=False,
        sqlite_where=sa.text("settled_at IS NULL"),
        postgresql_where=sa.text("settled_at IS NULL"),
    )
    op.create_index("ix_schedule_runs_repository", "schedule_runs", ["repository_id", "due_at"], unique=False)
    op.create_index("ix_schedule_runs_run_id", "schedule_runs", ["run_id"], unique=False)
    op.create_index("ix_schedule_runs_schedule", "schedule_runs", ["schedule_id", "id"], unique=False)
    op.create_index("ix_schedule_runs_settled_at", "schedule_runs", ["settled_at"], unique=False)
    op.create_index(
        "uq_schedule_runs_one_per_due_time",
        "schedule_runs",
        ["schedule_id", "repository_id", "due_at"],
        unique=True,
        sqlite_where=sa.text("voided_at IS NULL"),
        postgresql_where=sa.text("voided_at IS NULL"),
    )
    op.create_table(
        "schedule_state",
        sa.Column("id", types.Identifier, autoincrement=False, nullable=False),
        sa.Column("paused", sa.Boolean(), nullable=False),
        sa.Column("paused_by", sa.String(length=200), nullable=True),
        sa.Column("paused_at", types.UtcDateTime(), nullable=True),
        sa.Column("last_tick_at", types.UtcDateTime(), nullable=True),
        sa.Column("last_tick_milliseconds", sa.Integer(), nullable=True),
        sa.Column("clock_jumped_at", types.UtcDateTime(), nullable=True),
        sa.Column("clock_jumped_seconds", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_schedule_state")),
    )
    op.create_table(
        "schedules",
        sa.Column("id", types.Identifier, autoincrement=True, nullable=False),
        sa.Column("uuid", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("schedule_mode", sa.String(length=20), nullable=False),
        sa.Column("cron_expression", sa.String(length=200), nullable=True),
        sa.Column("timezone", sa.String(length=64), nullable=False),
        sa.Column("interval_minutes", sa.Integer(), nullable=True),
        sa.Column("starts_at", types.UtcDateTime(), nullable=True),
        sa.Column("availability_check_interval_minutes", sa.Integer(), nullable=True),
        sa.Column("min_success_interval_minutes", sa.Integer(), nullable=True),
        sa.Column("targets", types.JsonValue, nullable=False),
        sa.Column("exclude_repository_ids", types.JsonValue, nullable=False),
        sa.Column("steps", types.JsonValue, nullable=False),
        sa.Column("windows", types.JsonValue, nullable=False),
        sa.Column("on_window_close", sa.String(length=10), nullable=False),
        sa.Column("catch_up", sa.String(length=10), nullable=False),
        sa.Column("start_within_minutes", sa.Integer(), nullable=False),
        sa.Column("overlap", sa.String(length=10), nullable=False),
        sa.Column("spread_minutes", sa.Integer(), nullable=False),
        sa.Column("retries", sa.Integer(), nullable=False),
        sa.Column("archive_name_template", sa.String(length=200), nullable=True),
        sa.Column("snoozed_until", types.UtcDateTime(), nullable=True),
        sa.Column("next_due_at", types.UtcDateTime(), nullable=True),
        sa.Column("longest_gap_seconds", sa.Integer(), nullable=True),
        sa.Column("tz_version", sa.String(length=20), nullable=True),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("created_by", sa.String(length=200), nullable=True),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.Column("updated_at", types.UtcDateTime(), nullable=False),
        sa.Column("deleted_at", types.UtcDateTime(), nullable=True),
        sa.CheckConstraint("catch_up IN ('once', 'skip')", name=op.f("ck_schedules_catch_up")),
        sa.CheckConstraint("on_window_close IN ('finish', 'stop')", name=op.f("ck_schedules_on_window_close")),
        sa.CheckConstraint("overlap IN ('skip', 'queue')", name=op.f("ck_schedules_overlap")),
        sa.CheckConstraint(
            "schedule_mode IN ('cron', 'interval', 'availability')", name=op.f("ck_schedules_schedule_mode")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_schedules")),
        sa.UniqueConstraint("uuid", name=op.f("uq_schedules_uuid")),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_schedules_next_due_at",
        "schedules",
        ["next_due_at"],
        unique=False,
        sqlite_where=sa.text("next_due_at IS NOT NULL"),
        postgresql_where=sa.text("next_due_at IS NOT NULL"),
    )
    op.create_index(
        "uq_schedules_name",
        "schedules",
        ["name"],
        unique=True,
        sqlite_where=sa.text("deleted_at IS NULL"),
        postgresql_where=sa.text("deleted_at IS NULL"),
    )
    op.add_column(
        "operations", sa.Column("depends_needs", sa.String(length=10), server_default="succeeded", nullable=False)
    )
    op.add_column("repositories", sa.Column("storage_free_bytes", sa.BigInteger(), nullable=True))
    op.add_column("repositories", sa.Column("storage_total_bytes", sa.BigInteger(), nullable=True))
    op.add_column("repositories", sa.Column("storage_seen_at", types.UtcDateTime(), nullable=True))
    op.add_column("repositories", sa.Column("key_exported_at", types.UtcDateTime(), nullable=True))
    op.add_column("repositories", sa.Column("labels", types.JsonValue, server_default=sa.text("'{}'"), nullable=False))


def downgrade() -> None:
    for column in ("labels", "key_exported_at", "storage_seen_at", "storage_total_bytes", "storage_free_bytes"):
        op.drop_column("repositories", column)
    op.drop_column("operations", "depends_needs")
    for name in ("schedules", "schedule_state", "schedule_runs", "blackouts"):
        op.drop_table(name)
