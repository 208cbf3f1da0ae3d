"""GET /api/operations/timeline"""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.contract.backup.jobs import missing_backup
from tests.contract.fields import error_of
from tests.support.running import Running
from tests.support.service import Client


def rows_of(client: Client, repository: dict[str, Any], **params: Any) -> list[list[Any]]:
    answer = client.get("/api/operations/timeline", params=params)
    assert answer.status_code == 200, answer.text
    assert set(answer.json()) == {"since", "until", "rows", "truncated"}
    assert answer.json()["truncated"] is False
    return [row for row in answer.json()["rows"] if row[2] == repository["id"]]


def test_each_finished_operation_is_one_short_row_oldest_first(running: Running) -> None:
    repository = running.new_repository(index_mode="full")
    done = running.admin.wait_for_end(running.admin.start_backup(repository))
    failed = running.admin.operation(missing_backup(running, repository))

    rows = rows_of(running.admin, repository)

    assert rows == [
        [one["id"], "backup", repository["id"], one["status"], one["started_at"], one["completed_at"]]
        for one in (done, failed)
    ]
    with_index = rows_of(running.admin, repository, **{"category[]": ["backup", "index"]})
    assert {row[1] for row in with_index} > {"backup"}


def test_the_span_includes_every_operation_that_overlaps_it(running: Running) -> None:
    repository = running.new_repository()
    job = running.admin.operation(missing_backup(running, repository))
    start, end = (datetime.fromisoformat(job[name]) for name in ("started_at", "completed_at"))
    second = timedelta(seconds=1)

    assert rows_of(running.admin, repository, since=end + second) == []
    assert rows_of(running.admin, repository, until=start - second) == []
    assert len(rows_of(running.admin, repository, since=end, until=end + second)) == 1
    assert len(rows_of(running.admin, repository, since=start - second, until=start)) == 1


def test_a_running_operation_has_no_end(running: Running) -> None:
    with running.held_backup(running.scratch) as (job, _gate):
        row = next(row for row in rows_of(running.admin, running.scratch) if row[0] == job)

    assert (row[3], row[5]) == ("running", None)


def test_future_runs_are_planned_rows_visible_to_users_who_see_the_repository(running: Running) -> None:
    repository = running.new_repository()
    viewer = running.client_with_right(repository, "viewer")
    body = {"name": running.new_name("nightly"), "cron_expression": "30 2 * * *", "repository_ids": [repository["id"]]}
    made = running.admin.post("/api/schedules/", json=body)
    assert made.status_code == 201, made.text
    now = datetime.now(UTC)
    span = {"since": now, "until": now + timedelta(days=3)}

    rows = rows_of(viewer, repository, **span)

    assert [(row[0], row[1], row[3], row[5]) for row in rows] == [(None, "backup", "planned", None)] * 3
    assert all(datetime.fromisoformat(row[4]).astimezone(UTC).strftime("%H:%M") == "02:30" for row in rows)
    assert running.stranger.get("/api/operations/timeline", params=span).json()["rows"] == []
    running.admin.delete(f"/api/schedules/{made.json()['id']}")


@pytest.mark.parametrize(
    "span",
    [
        {"since": "2026-01-01T00:00:00Z", "until": "2026-04-01T00:00:00Z"},
        {"since": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z"},
    ],
)
def test_a_span_that_is_too_long_or_reversed_is_refused(running: Running, span: dict[str, str]) -> None:
    assert error_of(running.admin.get("/api/operations/timeline", params=span)) == (422, "timeline.bad_span")
    assert running.admin.get("/api/operations/timeline", params={"since": "nonsense"}).status_code == 422
    answer = running.admin.get("/api/operations/timeline", params={"category": "nonsense"})
    assert error_of(answer) == (422, "filters.unknown_value")
