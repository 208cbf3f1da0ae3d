"""The tables of notifications."""

from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Any

from sqlalchemy import Boolean, CheckConstraint, Index, Integer, String, text
from sqlalchemy.orm import Mapped, mapped_column

from holdfast.storage.base import NEVER_REUSED, NumberedRow, partial_index
from holdfast.storage.types import Identifier, JsonValue, RowUuid


class Severity(IntEnum):
    INFO = 1
    WARNING = 2
    CRITICAL = 3

    @property
    def word(self) -> str:
        return self.name.lower()

    @classmethod
    def of(cls, word: str | None) -> "Severity":
        return cls[word.upper()] if word and word.upper() in cls.__members__ else cls.WARNING


class DestinationKind(StrEnum):
    WEBHOOK = "webhook"
    SMTP = "smtp"
    APPRISE = "apprise"
    PING = "ping"


class DeliveryState(StrEnum):
    WAITING = "waiting"
    SENDING = "sending"
    SENT = "sent"
    FAILED = "failed"
    CANCELLED = "cancelled"


def _words(column: str, words: type[StrEnum]) -> CheckConstraint:
    return CheckConstraint(f"{column} IN ({', '.join(repr(str(word)) for word in words)})", name=column)


OPEN = text("closed_at IS NULL")
UNFINISHED = text("state IN ('waiting', 'sending')")


class Destination(NumberedRow):
    """A destination of messages."""

    __tablename__ = "notification_destinations"

    uuid: Mapped[RowUuid]
    name: Mapped[str] = mapped_column(String(100), unique=True)
    kind: Mapped[str] = mapped_column(String(10))
    enabled: Mapped[bool] = mapped_column(Boolean, default=True)
    disabled_reason: Mapped[str | None] = mapped_column(String(80))
    options: Mapped[dict[str, Any]]
    """The options that may be shown."""
    secrets: Mapped[str | None]
    """The secret options as JSON, encrypted; see access.vault."""
    last_sent_at: Mapped[datetime | None]
    failing_since: Mapped[datetime | None]
    last_error: Mapped[str | None]
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]

    __table_args__ = (_words("kind", DestinationKind), NEVER_REUSED)


class Rule(NumberedRow):
    """Which events become messages, when, and to which destinations."""

    __tablename__ = "notification_rules"

    name: Mapped[str] = mapped_column(String(100), unique=True)
    enabled: Mapped[bool] = mapped_column(Boolean, default=True)
    events: Mapped[list[str]]
    least_severity: Mapped[int]
    scope: Mapped[dict[str, Any]]
    send: Mapped[str] = mapped_column(String(10))
    remind_hours: Mapped[int]
    group_seconds: Mapped[int]
    quiet: Mapped[dict[str, Any] | None]
    destination_ids: Mapped[list[int] | None] = mapped_column(JsonValue)
    """None: every destination, including ones added later."""
    template: Mapped[dict[str, str] | None] = mapped_column(JsonValue)
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]

    __table_args__ = (CheckConstraint("send IN ('change', 'every')", name="send"), NEVER_REUSED)


class Incident(NumberedRow):
    """A failure; it has recovered once `closed_at` is set."""

    __tablename__ = "incidents"

    key: Mapped[str] = mapped_column(String(120))
    """For example `repository:7:backup`, `schedule:3:7`, `agent:2`, `alarm:storage_full:repository:7`."""
    event: Mapped[str] = mapped_column(String(40))
    severity: Mapped[int]
    repository_id: Mapped[int | None] = mapped_column(Identifier)
    item: Mapped[dict[str, Any]]
    """Its newest event, as messages show it."""
    error_key: Mapped[str | None] = mapped_column(String(80))
    opened_at: Mapped[datetime]
    last_at: Mapped[datetime]
    count: Mapped[int] = mapped_column(Integer, default=1)
    closed_at: Mapped[datetime | None]
    remind_at: Mapped[datetime | None]
    notices: Mapped[dict[str, Any]] = mapped_column(JsonValue, default=dict)
    """By `rule:destination`, the last delivery that reported it, and when."""

    __table_args__ = (
        partial_index("uq_incidents_open", "key", where=OPEN, unique=True),
        Index("ix_incidents_closed_at", "closed_at"),
        partial_index("ix_incidents_remind_at", "remind_at", where=OPEN),
        NEVER_REUSED,
    )


class Delivery(NumberedRow):
    """One message to one destination. Its uuid is the same in every attempt."""

    __tablename__ = "deliveries"

    uuid: Mapped[RowUuid]
    destination_id: Mapped[int] = mapped_column(Identifier)
    rule_id: Mapped[int | None] = mapped_column(Identifier)
    type: Mapped[str] = mapped_column(String(40))
    severity: Mapped[int]
    items: Mapped[list[dict[str, Any]]]
    more: Mapped[int] = mapped_column(Integer, default=0)
    """Number of events that are only counted, because the message is full."""
    body: Mapped[dict[str, Any] | None]
    """The content to send, created before the first attempt and the same in every one."""
    state: Mapped[str] = mapped_column(String(10), default=DeliveryState.WAITING)
    attempts: Mapped[int] = mapped_column(Integer, default=0)
    created_at: Mapped[datetime]
    next_attempt_at: Mapped[datetime]
    first_attempt_at: Mapped[datetime | None]
    lease_until: Mapped[datetime | None]
    lease: Mapped[str | None] = mapped_column(String(32))
    ended_at: Mapped[datetime | None]
    last_error: Mapped[str | None]
    once: Mapped[str | None] = mapped_column(String(160), unique=True)
    """Unique: a second delivery with the same value is never made (`ping:4:start:<run>`, `report:2:<time>`)."""

    __table_args__ = (
        _words("state", DeliveryState),
        partial_index("ix_deliveries_unfinished", "destination_id", "id", where=UNFINISHED),
        Index("ix_deliveries_destination", "destination_id", "rule_id", "created_at"),
        Index("ix_deliveries_ended_at", "ended_at"),
        NEVER_REUSED,
    )


class Report(NumberedRow):
    """A daily or weekly summary."""

    __tablename__ = "reports"

    name: Mapped[str] = mapped_column(String(100), unique=True)
    enabled: Mapped[bool] = mapped_column(Boolean, default=True)
    period: Mapped[str] = mapped_column(String(10))
    weekday: Mapped[int | None]
    """Day of weekly reports; 1 is Monday."""
    at: Mapped[str] = mapped_column(String(5))
    timezone: Mapped[str] = mapped_column(String(64))
    scope: Mapped[dict[str, Any]]
    destination_ids: Mapped[list[int] | None] = mapped_column(JsonValue)
    next_at: Mapped[datetime]
    last_at: Mapped[datetime | None]
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]

    __table_args__ = (CheckConstraint("period IN ('daily', 'weekly')", name="period"), NEVER_REUSED)
