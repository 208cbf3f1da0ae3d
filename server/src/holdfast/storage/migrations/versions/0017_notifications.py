"""notifications"""

from holdfast.storage.migration_steps import create_indexes, create_table

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    create_table(
        "deliveries",
        """
        id serial, uuid string(32), destination_id identifier, rule_id identifier?, type string(40),
        severity integer, items json, more integer, body json?, state string(10), attempts integer,
        created_at time, next_attempt_at time, first_attempt_at time?, lease_until time?, lease string(32)?,
        ended_at time?, last_error text?, once string(160)?
        """,
        checks={"state": "state IN ('waiting', 'sending', 'sent', 'failed', 'cancelled')"},
        unique="once, uuid",
    )
    create_indexes(
        "deliveries",
        """
        ix_deliveries_destination: destination_id rule_id created_at
        ix_deliveries_ended_at: ended_at
        ix_deliveries_unfinished: destination_id id where state IN ('waiting', 'sending')
        """,
    )
    create_table(
        "incidents",
        """
        id serial, key string(120), event string(40), severity integer, repository_id identifier?, item json,
        error_key string(80)?, opened_at time, last_at time, count integer, closed_at time?, remind_at time?,
        notices json
        """,
    )
    create_indexes(
        "incidents",
        """
        ix_incidents_closed_at: closed_at
        ix_incidents_remind_at: remind_at where closed_at IS NULL
        unique uq_incidents_open: key where closed_at IS NULL
        """,
    )
    create_table(
        "notification_destinations",
        """
        id serial, uuid string(32), name string(100), kind string(10), enabled boolean,
        disabled_reason string(80)?, options json, secrets text?, last_sent_at time?, failing_since time?,
        last_error text?, created_at time, updated_at time
        """,
        checks={"kind": "kind IN ('webhook', 'smtp', 'apprise', 'ping')"},
        unique="name, uuid",
    )
    create_table(
        "notification_rules",
        """
        id serial, name string(100), enabled boolean, events json, least_severity integer, scope json,
        send string(10), remind_hours integer, group_seconds integer, quiet json?, destination_ids json?,
        template json?, created_at time, updated_at time
        """,
        checks={"send": "send IN ('change', 'every')"},
        unique="name",
    )
    create_table(
        "reports",
        """
        id serial, name string(100), enabled boolean, period string(10), weekday integer?, at string(5),
        timezone string(64), scope json, destination_ids json?, next_at time, last_at time?, created_at time,
        updated_at time
        """,
        checks={"period": "period IN ('daily', 'weekly')"},
        unique="name",
    )
