"""Every series, read from the store."""

from datetime import timedelta

from sqlalchemy import select

from holdfast.archives.constant_rules import ConstantRules
from holdfast.kit import clock
from holdfast.metrics import totals
from holdfast.metrics.scrape import KEPT_SECONDS, Metrics
from holdfast.operations import transitions
from holdfast.operations.models import OutboxEntry
from holdfast.operations.status import Status
from holdfast.schedules.models import Schedule, ScheduleRun, ScheduleState
from holdfast.storage.session import Database
from tests.support.evidence import add_agent_machine, add_operation, add_repository
from tests.unit.metrics.test_exposition import parsed

NAMES = {
    "holdfast_build_info",
    "holdfast_operations_finished_total",
    "holdfast_operations_active",
    "holdfast_operation_duration_seconds",
    "holdfast_last_success_timestamp_seconds",
    "holdfast_overdue_threshold_seconds",
    "holdfast_repository_size_bytes",
    "holdfast_repository_archives",
    "holdfast_repository_storage_free_bytes",
    "holdfast_schedule_due_total",
    "holdfast_schedule_next_due_timestamp_seconds",
    "holdfast_schedule_last_run_success",
    "holdfast_schedule_tick_timestamp_seconds",
    "holdfast_schedule_tick_duration_seconds",
    "holdfast_schedule_runs_waiting",
    "holdfast_agents",
    "holdfast_agent_last_seen_timestamp_seconds",
    "holdfast_alarms",
    "holdfast_deliveries_total",
}


def read(database: Database, most: int = 2000) -> str:
    return Metrics(database, most, ConstantRules()).make()


def test_an_empty_store_names_every_family(database: Database) -> None:
    text = read(database)

    assert {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")} >= NAMES
    assert parsed(text)["holdfast_repositories"] == [({}, 0)]


def test_repositories_have_series_for_last_successes_sizes_and_thresholds(database: Database) -> None:
    now = clock.now()
    with database.writing() as session:
        add_repository(
            session,
            name="etc",
            last_backup=now - timedelta(days=10),
            last_check=now,
            unique_size=5_000,
            archive_count=3,
            storage_free_bytes=7,
        )
        add_repository(session, name="new")
    found = parsed(read(database))

    successes = {
        (one["repository"], one["kind"]): value for one, value in found["holdfast_last_success_timestamp_seconds"]
    }
    assert set(successes) == {("etc", "backup"), ("etc", "check")}
    assert abs(successes["etc", "check"] - now.timestamp()) < 0.001
    assert ({"repository": "etc", "kind": "backup"}, 7 * 86400) in found["holdfast_overdue_threshold_seconds"]
    assert found["holdfast_repository_size_bytes"] == [({"repository": "etc"}, 5_000)]
    assert found["holdfast_repository_archives"] == [({"repository": "etc"}, 3)]
    assert found["holdfast_repository_storage_free_bytes"] == [({"repository": "etc"}, 7)]
    assert ({"kind": "backup"}, 1) in found["holdfast_repositories_overdue"]


def test_above_the_limit_only_sums_are_exposed_and_a_series_indicates_it(database: Database) -> None:
    with database.writing() as session:
        for number in range(3):
            add_repository(session, unique_size=10 + number, archive_count=1, last_backup=clock.now())
            add_agent_machine(session)
    found = parsed(read(database, most=2))

    assert "holdfast_last_success_timestamp_seconds" not in found
    assert "holdfast_agent_last_seen_timestamp_seconds" not in found
    assert found["holdfast_repository_size_bytes"] == [({}, 33)]
    assert found["holdfast_repository_archives"] == [({}, 3)]
    assert found["holdfast_agents"] == [({"status": "online"}, 3)]
    assert found["holdfast_metrics_repositories_summed"] == [({}, 1)]
    assert found["holdfast_metrics_agents_summed"] == [({}, 1)]
    assert parsed(read(database, most=3))["holdfast_metrics_repositories_summed"] == [({}, 0)]


def test_agents_with_the_same_name_have_separate_series(database: Database) -> None:
    with database.writing() as session:
        for _ in range(3):
            add_agent_machine(session, "laptop")

    labels = [one["agent"] for one, _ in parsed(read(database))["holdfast_agent_last_seen_timestamp_seconds"]]
    assert len(set(labels)) == 3


def test_running_and_waiting_operations_are_counted_without_inline_calls(database: Database) -> None:
    with database.writing() as session:
        add_operation(session, "backup", "running")
        add_operation(session, "backup", "pending")
        add_operation(session, "check", "pending")
        add_operation(session, "browse", "running", executor="inline")
        add_operation(session, "check", "completed")

    active = {
        (one["kind"], one["status"]): value for one, value in parsed(read(database))["holdfast_operations_active"]
    }
    assert active == {("backup", "running"): 1, ("backup", "pending"): 1, ("check", "pending"): 1}


def entries(database: Database) -> list[OutboxEntry]:
    with database.reading() as session:
        return list(session.scalars(select(OutboxEntry).order_by(OutboxEntry.id)))


def test_finished_operations_are_counted_with_their_durations(database: Database) -> None:
    began = clock.now() - timedelta(hours=1)
    with database.writing() as session:
        for seconds in (0.5, 30, 4000):
            ended = began + timedelta(seconds=seconds)
            done = add_operation(session, "backup", "completed", started_at=began, completed_at=ended)
            transitions.publish_status(session, done.id, None, Status.RUNNING)
            transitions.publish_status(session, done.id, None, Status.COMPLETED)
        skipped = add_operation(session, "prune", "skipped", started_at=None)
        transitions.publish_status(session, skipped.id, None, Status.SKIPPED)
        transitions.publish_status(session, 999_999, None, Status.FAILED)
    with database.writing() as session:
        totals.count(session, entries(database))
    found = parsed(read(database))

    finished = {(one["kind"], one["status"]): value for one, value in found["holdfast_operations_finished_total"]}
    assert finished == {("backup", "completed"): 3, ("prune", "skipped"): 1, ("unknown", "failed"): 1}
    buckets = {one["le"]: value for one, value in found["holdfast_operation_duration_seconds_bucket"]}
    assert buckets == {
        "1": 1,
        "5": 1,
        "15": 1,
        "60": 2,
        "300": 2,
        "900": 2,
        "3600": 2,
        "14400": 3,
        "43200": 3,
        "86400": 3,
        "+Inf": 3,
    }
    assert found["holdfast_operation_duration_seconds_sum"] == [({"kind": "backup"}, 4030.5)]
    assert found["holdfast_operation_duration_seconds_count"] == [({"kind": "backup"}, 3)]


def test_totals_accumulate_over_batches(database: Database) -> None:
    with database.writing() as session:
        done = add_operation(session, "check", "failed")
        transitions.publish_status(session, done.id, None, Status.FAILED)
    for _ in range(3):
        with database.writing() as session:
            totals.count(session, entries(database))

    found = parsed(read(database))["holdfast_operations_finished_total"]
    assert found == [({"kind": "check", "status": "failed"}, 3)]


def test_outcomes_of_due_times_and_deliveries_are_counted(database: Database) -> None:
    rows = [
        OutboxEntry(topic="schedule.run", payload={"outcome": "missed", "reason": "service_down", "due_count": 12}),
        OutboxEntry(topic="schedule.run", payload={"outcome": "ran", "reason": None}),
        OutboxEntry(topic="notification.delivery", payload={"kind": "webhook", "state": "delivered"}),
    ]
    with database.writing() as session:
        totals.count(session, rows)
    found = parsed(read(database))

    due = {(one["outcome"], one["reason"]): value for one, value in found["holdfast_schedule_due_total"]}
    assert due == {("missed", "service_down"): 12, ("ran", ""): 1}
    assert found["holdfast_deliveries_total"] == [({"kind": "webhook", "state": "delivered"}, 1)]


def test_schedules_have_series_for_their_next_due_time_and_the_success_of_their_last_run(database: Database) -> None:
    now = clock.now()
    with database.writing() as session:
        for name in ("well", "broken", "new"):
            session.add(
                Schedule(
                    uuid=name,
                    name=name,
                    targets={"all": True},
                    steps=[{"kind": "backup"}],
                    next_due_at=now,
                    created_at=now,
                    updated_at=now,
                )
            )
        session.flush()
        ids = {row.name: row.id for row in session.execute(select(Schedule.id, Schedule.name))}
        for schedule, day, repository, outcome, result in (
            ("well", 2, 1, "ran", "failed"),
            ("well", 1, 1, "ran", "completed"),
            ("well", 1, 2, "ran", "completed_with_warnings"),
            ("well", 1, 3, "skipped", None),
            ("broken", 1, 1, "ran", "completed"),
            ("broken", 1, 2, "missed", None),
            ("broken", 0, 1, "waiting", None),
        ):
            due = now - timedelta(days=day)
            ended = None if outcome == "waiting" else now
            session.add(
                ScheduleRun(
                    schedule_id=ids[schedule],
                    repository_id=repository,
                    due_at=due,
                    start_at=due,
                    revision=1,
                    outcome=outcome,
                    result=result,
                    settled_at=ended,
                    look_at=None if ended else now,
                )
            )
        session.add(ScheduleState(id=1, paused=False, last_tick_at=now, last_tick_milliseconds=250))
    found = parsed(read(database))

    assert {one["schedule"] for one, _ in found["holdfast_schedule_next_due_timestamp_seconds"]} == set(ids)
    success = {one["schedule"]: value for one, value in found["holdfast_schedule_last_run_success"]}
    assert success == {"well": 1, "broken": 0}
    assert found["holdfast_schedule_tick_duration_seconds"] == [({}, 0.25)]
    assert found["holdfast_schedule_runs_waiting"] == [({}, 1)]


def test_a_response_is_cached_for_ten_seconds(database: Database) -> None:
    now = [100.0]
    metrics = Metrics(database, 2000, ConstantRules(), lambda: now[0])
    first = metrics.text()
    with database.writing() as session:
        add_repository(session)
    assert metrics.text() == first

    now[0] += KEPT_SECONDS
    assert parsed(metrics.text())["holdfast_repositories"] == [({}, 1)]
