"""schedules, their runs, blackouts; labels, storage and exported keys of repositories; what dependants need"""

from holdfast.storage.migration_steps import add_columns, create_indexes, create_table

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    create_table(
        "blackouts",
        """
        id serial, name string(200), first_day date, last_day date, timezone string(64), yearly boolean,
        labels json
        """,
    )
    create_table(
        "schedule_runs",
        """
        id serial, schedule_id identifier, repository_id identifier, due_at time, due_until time?,
        due_count integer, origin string(20), revision integer, start_at time, look_at time?,
        waiting_for string(20)?, outcome string(10), reason string(40)?, reason_operation_id identifier?,
        run_id string(32)?, tries integer, steps json, options json, result string(30)?, error_key string(80)?,
        released_at time?, settled_at time?, voided_at time?
        """,
        checks={
            "origin": "origin IN ('calendar', 'availability', 'manual')",
            "outcome": "outcome IN ('waiting', 'ran', 'skipped', 'missed')",
        },
    )
    create_indexes(
        "schedule_runs",
        """
        ix_schedule_runs_look_at: look_at where look_at IS NOT NULL
        ix_schedule_runs_open: schedule_id repository_id where settled_at IS NULL
        ix_schedule_runs_repository: repository_id due_at
        ix_schedule_runs_run_id: run_id
        ix_schedule_runs_schedule: schedule_id id
        ix_schedule_runs_settled_at: settled_at
        unique uq_schedule_runs_one_per_due_time: schedule_id repository_id due_at where voided_at IS NULL
        """,
    )
    create_table(
        "schedule_state",
        """
        id identifier, paused boolean, paused_by string(200)?, paused_at time?, last_tick_at time?,
        last_tick_milliseconds integer?, clock_jumped_at time?, clock_jumped_seconds integer?
        """,
    )
    create_table(
        "schedules",
        """
        id serial, uuid string(32), name string(200), description text?, enabled boolean,
        schedule_mode string(20), cron_expression string(200)?, timezone string(64), interval_minutes integer?,
        starts_at time?, availability_check_interval_minutes integer?, min_success_interval_minutes integer?,
        targets json, exclude_repository_ids json, steps json, windows json, on_window_close string(10),
        catch_up string(10), start_within_minutes integer, overlap string(10), spread_minutes integer,
        retries integer, archive_name_template string(200)?, snoozed_until time?, next_due_at time?,
        longest_gap_seconds integer?, tz_version string(20)?, revision integer, created_by string(200)?,
        created_at time, updated_at time, deleted_at time?
        """,
        checks={
            "catch_up": "catch_up IN ('once', 'skip')",
            "on_window_close": "on_window_close IN ('finish', 'stop')",
            "overlap": "overlap IN ('skip', 'queue')",
            "schedule_mode": "schedule_mode IN ('cron', 'interval', 'availability')",
        },
        unique="uuid",
    )
    create_indexes(
        "schedules",
        """
        ix_schedules_next_due_at: next_due_at where next_due_at IS NOT NULL
        unique uq_schedules_name: name where deleted_at IS NULL
        """,
    )
    add_columns("operations", "depends_needs string(10)", default="succeeded")
    add_columns(
        "repositories",
        "storage_free_bytes bigint?, storage_total_bytes bigint?, storage_seen_at time?, key_exported_at time?",
    )
    add_columns("repositories", "labels json", default="{}")
