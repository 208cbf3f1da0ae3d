"""alarms, their thresholds and measurements; totals of metrics; tokens that read metrics alone"""

from alembic import op

from holdfast.storage.migration_steps import create_indexes, create_table

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    create_table(
        "alarms",
        """
        id serial, kind string(40), subject string(60), repository_id identifier?, severity string(10),
        state string(10), since time, seen_at time, known boolean, clearing_since time?, cleared_at time?,
        evidence json, acknowledged_by string(64)?, acknowledged_at time?, acknowledged_until time?,
        comment text?
        """,
        checks={"state": "state IN ('watched', 'open', 'cleared')", "severity": "severity IN ('warning', 'critical')"},
    )
    create_indexes(
        "alarms",
        """
        unique uq_alarms_not_cleared: kind subject where state <> 'cleared'
        ix_alarms_state: state id
        ix_alarms_repository: repository_id state id
        ix_alarms_cleared_at: cleared_at
        """,
    )
    create_table(
        "alarm_overrides",
        "repository_id identifier, thresholds json",
        key="repository_id",
        refers="repository_id repositories.id cascade",
    )
    create_table(
        "storage_days",
        "repository_id identifier, day date, seen_at time, free_bytes bigint",
        key="repository_id day",
        refers="repository_id repositories.id cascade",
    )
    create_table("metric_totals", "name string(120), labels string(600), value double", key="name labels")
    create_indexes("operations", "ix_operations_damaged: repository_id id where error_key = 'engine.damaged'")
    name = op.f("ck_account_tokens_scope")
    with op.batch_alter_table("account_tokens", table_kwargs={"sqlite_autoincrement": True}) as table:
        table.drop_constraint(name, type_="check")
        table.create_check_constraint(name, "scope IN ('read', 'operate', 'admin', 'metrics')")
