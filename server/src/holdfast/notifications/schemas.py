"""Requests and responses about notifications."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, SecretStr, StrictBool, StrictInt, model_validator

from holdfast.kit.fields import PlainText, RowId, Timestamp
from holdfast.kit.schema import Closed, Schema

Name = Annotated[str, PlainText(1, 100)]
Address = Annotated[str, PlainText(3, 320), Field(pattern=r"^[^\s@<>,;]+@[^\s@<>,;]+$")]
Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
Clock = Annotated[str, Field(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$", max_length=5)]
SeverityWord = Literal["info", "warning", "critical"]
EventPattern = Annotated[str, Field(pattern=r"^[a-z_*.]{1,40}$")]
Ids = Annotated[list[RowId], Field(max_length=1000)]
Label = Annotated[str, PlainText(1, 100)]


class DestinationOptions(Closed):
    """The options of all kinds; each kind accepts some of them."""

    url: Annotated[str, PlainText(1, 2000)] | None = Field(
        None, description="webhook: http(s) address. apprise: its address. ping: address of the check."
    )
    secret: SecretStr | None = Field(
        None,
        max_length=200,
        description="webhook: `whsec_…` (24 to 64 bytes, base64). Generated if omitted. Write-only.",
    )
    rotate_secret: StrictBool = Field(
        False, description="webhook: create a new secret; messages carry signatures of both until `retire_secret`."
    )
    retire_secret: StrictBool = Field(False, description="webhook: forget the previous secret.")
    host: Annotated[str, PlainText(1, 253), Field(pattern=r"^[A-Za-z0-9.:_-]+$")] | None = Field(
        None, description="smtp: mail server."
    )
    port: Annotated[StrictInt, Field(ge=1, le=65535)] | None = Field(
        None, description="smtp: port (default: 587, with `tls` 465)."
    )
    security: Literal["starttls", "tls", "none"] | None = Field(None, description="smtp (default: starttls).")
    username: Annotated[str, PlainText(1, 320)] | None = Field(None, description="smtp: login name.")
    password: SecretStr | None = Field(None, max_length=1000, description="smtp: password. Write-only.")
    sender: Address | None = Field(None, alias="from", description="smtp: sender address.")
    to: Annotated[list[Address], Field(min_length=1, max_length=50)] | None = Field(
        None, description="smtp: recipients."
    )
    schedule_id: RowId | None = Field(None, description="ping: the schedule whose runs are reported.")


class NewDestination(Closed):
    name: Name
    kind: Literal["webhook", "smtp", "apprise", "ping"]
    enabled: StrictBool = True
    options: DestinationOptions


class DestinationChange(Closed):
    """Omitted fields stay unchanged."""

    name: Name | None = None
    enabled: StrictBool | None = None
    options: DestinationOptions | None = None


class DestinationAnswer(Schema):
    id: int
    name: str
    kind: str
    enabled: bool
    disabled_reason: str | None = Field(description="`gone`: the receiver answered 410.")
    options: dict[str, Any]
    secret_options: list[str] = Field(description="Names of the secret options that are set.")
    waiting: int = Field(description="Messages that wait.")
    last_sent_at: Timestamp | None
    failing_since: Timestamp | None
    last_error: str | None
    created_at: Timestamp
    updated_at: Timestamp
    new_secret: str | None = Field(None, description="webhook: the secret just created. It is shown only this once.")


class DestinationList(Schema):
    destinations: list[DestinationAnswer]


class Verdict(Schema):
    ok: bool
    message: str
    seconds: float
    delivery_id: int


class Scope(Closed):
    """At most one of these; without any, all repositories."""

    all: Literal[True] | None = Field(None, description="Every repository, as without a scope.")
    repository_ids: Annotated[Ids, Field(min_length=1)] | None = None
    schedule_ids: Annotated[Ids, Field(min_length=1)] | None = None
    labels: Annotated[dict[Label, Label], Field(min_length=1, max_length=20)] | None = Field(
        None, description="Repositories with all of these labels, their own or their agent's."
    )

    @model_validator(mode="after")
    def _names_one_way(self) -> Self:
        if len(self.model_dump(exclude_none=True)) > 1:
            raise ValueError("give only one of all, repository_ids, schedule_ids and labels")
        return self

    def stored(self) -> dict[str, Any]:
        return self.model_dump(exclude_none=True, exclude={"all"})


class Quiet(Closed):
    days: Annotated[list[Day], Field(max_length=7)] = Field(
        [], description="Days on which they begin (default: every day)."
    )
    begin: Clock = Field(alias="from")
    end: Clock = Field(alias="to")
    timezone: Annotated[str, PlainText(1, 64)] = "UTC"


class Template(Closed):
    subject: Annotated[str, PlainText(1, 200)] | None = None
    text: Annotated[str, PlainText(1, 4000)] | None = None


class RuleBody(Closed):
    name: Name
    enabled: StrictBool = True
    events: Annotated[list[EventPattern], Field(max_length=50)] = Field(
        [], description="Names or patterns such as `backup.*` (default: every event)."
    )
    least_severity: SeverityWord = "warning"
    scope: Scope = Scope()
    send: Literal["change", "every"] = Field("change", description="Send on changes of state, or on every event.")
    remind_hours: Annotated[StrictInt, Field(ge=0, le=8760)] = Field(24, description="0: no reminders.")
    group_seconds: Annotated[StrictInt, Field(ge=0, le=86400)] = Field(
        30, description="Events within this time after a message are combined into one further message."
    )
    quiet: Quiet | None = Field(None, description="Holds everything below critical until the end of the quiet hours.")
    destination_ids: Ids | None = Field(None, description="Default: every destination.")
    template: Template | None = Field(None, description="Text with `{field}`s.")


class RuleAnswer(Schema):
    id: int
    name: str
    enabled: bool
    events: list[str]
    least_severity: str
    scope: dict[str, Any]
    send: str
    remind_hours: int
    group_seconds: int
    quiet: dict[str, Any] | None
    destination_ids: list[int] | None
    template: dict[str, str] | None
    created_at: Timestamp
    updated_at: Timestamp


class RuleList(Schema):
    rules: list[RuleAnswer]
    events: list[str] = Field(description="All events that rules can match.")
    fields: list[str] = Field(description="Fields available in templates.")


class ReportBody(Closed):
    name: Name
    enabled: StrictBool = True
    period: Literal["daily", "weekly"] = "daily"
    weekday: Day | None = Field(None, description="For weekly reports (default: mon).")
    at: Clock = "07:00"
    timezone: Annotated[str, PlainText(1, 64)] = "UTC"
    scope: Scope = Scope()
    destination_ids: Ids | None = Field(None, description="Default: every destination.")


class ReportAnswer(Schema):
    id: int
    name: str
    enabled: bool
    period: str
    weekday: str | None
    at: str
    timezone: str
    scope: dict[str, Any]
    destination_ids: list[int] | None
    next_at: Timestamp
    last_at: Timestamp | None
    created_at: Timestamp
    updated_at: Timestamp


class ReportList(Schema):
    reports: list[ReportAnswer]


class DeliveryAnswer(Schema):
    id: int
    uuid: str
    destination_id: int
    destination: str | None
    rule_id: int | None
    type: str
    severity: str
    subject: str | None
    items: list[dict[str, Any]]
    more: int
    state: str
    attempts: int
    created_at: Timestamp
    next_attempt_at: Timestamp | None
    ended_at: Timestamp | None
    last_error: str | None


class DeliveryList(Schema):
    deliveries: list[DeliveryAnswer]
