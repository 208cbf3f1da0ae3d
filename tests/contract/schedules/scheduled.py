"""Schedules over HTTP."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from httpx2 import Response

from tests.contract.fields import error_of
from tests.support.running import Running
from tests.support.service import Client, wait_until

URL = "/api/schedules"
NIGHTLY = "30 2 * * *"
RUN = {
    *("id", "schedule_id", "schedule_name", "repository_id", "repository", "due_at", "due_until", "due_count"),
    *("origin", "revision", "start_at", "look_at", "waiting_for", "outcome", "reason", "reason_operation_id"),
    *("run_id", "tries", "steps", "result", "error_key", "released_at", "settled_at"),
}
FIRE = {"due_at", "local", "start_at", "targets", "target_count", "reason", "steps"}
SCHEDULE = {
    *("id", "uuid", "name", "description", "enabled", "schedule_mode", "cron_expression", "timezone"),
    *("interval_minutes", "starts_at", "availability_check_interval_minutes", "min_success_interval_minutes"),
    *("explained", "targets", "exclude_repository_ids", "repositories", "steps", "windows", "on_window_close"),
    *("catch_up", "start_within_minutes", "overlap", "spread_minutes", "retries", "archive_name_template"),
    *("snoozed_until", "next_due_at", "longest_gap_seconds", "next_run", "last_run", "last_result", "waiting"),
    "waiting_count",
    *("revision", "created_by", "created_at", "updated_at"),
}


@dataclass
class Scheduled:
    """Creates schedules and runs them."""

    running: Running
    client: Client = field(init=False)

    def __post_init__(self) -> None:
        self.client = self.running.admin

    @property
    def shared(self) -> dict[str, Any]:
        """A repository that tests may schedule work for, but must not change."""
        return self.running.known.repository

    def waiting(self, *repositories: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """A schedule, and a run of it that waits for its window."""
        window, leap_day = closed_window(), "0 0 29 2 *"
        schedule = self.new(*repositories, windows=[window], timezone="UTC", cron_expression=leap_day)
        row: dict[str, Any] = self.run(schedule, respect_windows=True)["runs"][0]
        assert (row["outcome"], row["operations"]) == ("waiting", [])
        return schedule, row

    def body(self, *repositories: dict[str, Any], **more: Any) -> dict[str, Any]:
        targets = {"targets": {"repository_ids": [each["id"] for each in repositories]}} if repositories else {}
        name = self.running.new_name("schedule")
        return {"name": name, "cron_expression": NIGHTLY, "timezone": "Europe/Berlin", **targets, **more}

    def new(self, *repositories: dict[str, Any], **more: Any) -> dict[str, Any]:
        answer = self.client.post(f"{URL}/", json=self.body(*repositories, **more))
        assert answer.status_code == 201, answer.text
        created: dict[str, Any] = answer.json()
        return created

    def read(self, schedule: dict[str, Any]) -> dict[str, Any]:
        answer = self.client.get(f"{URL}/{schedule['id']}")
        assert answer.status_code == 200, answer.text
        read: dict[str, Any] = answer.json()
        return read

    def run(self, schedule: dict[str, Any], **asked: Any) -> dict[str, Any]:
        answer = self.client.post(f"{URL}/{schedule['id']}/run", json=asked)
        assert answer.status_code == 200, answer.text
        started: dict[str, Any] = answer.json()
        return started

    def run_row(self, number: int) -> dict[str, Any]:
        row: dict[str, Any] = self.client.get(f"{URL}/runs/{number}").json()
        return row

    def settled(self, number: int) -> dict[str, Any]:
        """Wait until the run is settled, and return it."""

        def over() -> dict[str, Any] | None:
            row = self.run_row(number)
            return row if row["settled_at"] is not None else None

        return wait_until(over, what="the run is settled")

    def audit(self, action: str) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = self.client.get("/api/audit", params={"action": action}).json()["entries"]
        return entries


def refused(answer: Response, status: int) -> dict[str, Any]:
    """Check that a response has this status, and return its error."""
    assert answer.status_code == status, answer.text
    error_of(answer)
    detail: dict[str, Any] = answer.json()["detail"]
    return detail


def closed_window() -> dict[str, Any]:
    """A window that opens half a day from now, for a minute, in UTC."""
    opens = datetime.now(UTC) + timedelta(hours=12)
    return {"from": f"{opens:%H:%M}", "to": f"{opens + timedelta(minutes=1):%H:%M}"}
