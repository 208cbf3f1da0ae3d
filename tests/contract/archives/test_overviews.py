"""Heatmap, status cells, and the state of derived data."""

from datetime import timedelta
from typing import Any

import pytest

from tests.contract.archives.world import World, get
from tests.contract.fields import DERIVED_DATA, HISTORY_COUNTS, error_of, is_timestamp

DAY = {"date", "count", "original_size", "deduplicated_size", "duration_seconds", "archive_ids", "anomalies"}
CELL = {"cell", "status", "completed_at", "age_seconds", "threshold_days", "overdue", "running", "source"}
CELL |= {"threshold_seconds", "schedule_id", "next_due_at"}


def days(world: World, answer: dict[str, Any]) -> dict[str, list[str | None]]:
    return {day["date"]: [world.word(number) for number in day["archive_ids"]] for day in answer["days"]}


def dates(world: World, *words: str) -> dict[str, list[str]]:
    return {world.times[word].date().isoformat(): [word] for word in words}


def test_the_heatmap_counts_archives_by_day_and_series(world: World) -> None:
    found = world.get("/archives/heatmap")

    assert set(found) == {"since", "until", "repository", "series", "cadence_known", "flags_available"}
    assert days(world, found["repository"]) == dates(world, "d1", "w1", "d2", "w2", "d3")
    assert [one["series"] for one in found["series"]] == ["docs", "web"]
    assert days(world, found["series"][0]) == dates(world, "d1", "d2", "d3")
    assert days(world, found["series"][1]) == dates(world, "w1", "w2")
    for day in found["repository"]["days"]:
        assert set(day) == DAY
        assert day["count"] == 1
        assert day["original_size"] > 0
    assert found["flags_available"] == {"outliers": True, "missed_run": True}


def test_no_day_counts_as_missed_without_a_schedule(world: World) -> None:
    found = world.get("/archives/heatmap")

    assert found["cadence_known"] is False
    assert [one["missed_days"] for one in (found["repository"], *found["series"])] == [[], [], []]


def test_the_first_archives_are_not_outliers(world: World) -> None:
    found = world.get("/archives/heatmap")

    assert {flag for day in found["repository"]["days"] for flag in day["anomalies"]} == set()


def test_since_and_until_narrow_the_days(world: World) -> None:
    since, until = world.times["w1"], world.times["w2"]
    found = world.get("/archives/heatmap", since=since.isoformat(), until=until.isoformat())

    assert (found["since"], found["until"]) == (since.date().isoformat(), until.date().isoformat())
    assert days(world, found["repository"]) == dates(world, "w1", "d2", "w2")


def test_days_are_those_of_the_requested_time_zone(world: World) -> None:
    """Noon UTC is already the next day in Kiritimati, fourteen hours ahead."""
    found = world.get("/archives/heatmap", tz="Pacific/Kiritimati")

    tomorrow = (world.times["d1"] + timedelta(days=1)).date().isoformat()
    assert days(world, found["repository"])[tomorrow] == ["d1"]


@pytest.mark.parametrize("query", [{"tz": "Nowhere/Atlantis"}, {"tz": "../etc/passwd"}])
def test_an_unknown_time_zone_is_refused_with_422(world: World, query: dict[str, str]) -> None:
    answer = world.admin.get(f"{world.url}/archives/heatmap", params=query)

    assert error_of(answer) == (422, "archives.unknown_timezone")


def test_a_span_that_ends_before_it_begins_is_refused_with_422(world: World) -> None:
    query = {"since": world.times["w2"].isoformat(), "until": world.times["w1"].isoformat()}

    assert error_of(world.admin.get(f"{world.url}/archives/heatmap", params=query)) == (422, "archives.bad_span")


# --- status -----------------------------------------------------------------------------------------------------------


def test_every_status_cell_shows_its_evidence(world: World) -> None:
    found = world.get("/status")
    cells = {cell["cell"]: cell for cell in found["cells"]}

    assert set(found) == {"cells", "overdue_available"}
    assert list(cells) == ["backup", "check", "prune", "compact", "restore_check", "index", "mirror"]
    assert all(set(cell) == CELL for cell in cells.values())
    for never in ("check", "prune", "compact", "restore_check", "mirror"):
        assert (cells[never]["status"], cells[never]["source"], cells[never]["completed_at"]) == ("never", None, None)
    assert cells["index"]["status"] == "completed"
    assert cells["index"]["source"].startswith("operation:")
    assert is_timestamp(cells["index"]["completed_at"])
    assert cells["index"]["age_seconds"] >= 0


def test_archives_created_elsewhere_are_evidence_of_backups(world: World) -> None:
    (backup,) = [cell for cell in world.get("/status")["cells"] if cell["cell"] == "backup"]

    assert (backup["status"], backup["source"]) == ("completed", "repository")
    assert backup["completed_at"][:10] == world.times["d3"].date().isoformat()
    assert get(world.admin, world.url)["last_backup"] == backup["completed_at"]


def test_work_that_was_never_done_is_not_overdue_immediately(world: World) -> None:
    cells = {cell["cell"]: cell for cell in world.get("/status")["cells"]}

    assert world.get("/status")["overdue_available"] is True
    assert cells["check"]["overdue"] is False, "the repository is known since a moment ago"
    assert cells["mirror"]["overdue"] is None
    assert cells["check"]["threshold_days"] == 30


def test_the_repository_shows_the_same_evidence_as_the_status(world: World) -> None:
    repository = get(world.admin, world.url)

    assert repository["last_index"] is not None
    assert repository["last_prune"] is None
    assert repository["archive_count"] == 5
    assert repository["total_size"] > 0


# --- derived data -----------------------------------------------------------------------------------------------------


def test_the_state_of_derived_data_has_a_row_for_each_repository(world: World) -> None:
    found = get(world.admin, "/api/operations/repositories")
    (row,) = [one for one in found["repositories"] if one["repository_id"] == world.repository["id"]]

    assert set(found) == {"repositories", "totals", "last_reconcile_at", "reconcile_interval_minutes"}
    assert set(row) == DERIVED_DATA
    assert set(row["history"]) == set(found["totals"]) == HISTORY_COUNTS
    assert (row["repository_name"], row["index_mode"], row["sync_state"]) == (
        world.repository["name"],
        "full",
        "fresh",
    )
    assert row["archives"] == 5
    assert (row["history"]["indexed"], row["history"]["pending"], row["history"]["failed"]) == (5, 0, 0)
    assert row["history"]["bytes"] > 0
    assert row["history"]["rows"] == sum(one["history_rows"] for one in world.get("/archives")["archives"])
    assert all(is_timestamp(row[name]) for name in ("last_synced_at", "last_stats_at", "last_history_at"))
    for name in HISTORY_COUNTS:
        assert found["totals"][name] == sum(one["history"][name] for one in found["repositories"])
    assert found["reconcile_interval_minutes"] == 60
    assert is_timestamp(found["last_reconcile_at"])


def test_the_details_of_a_row_list_failed_and_truncated_archives(world: World) -> None:
    found = get(world.admin, f"/api/operations/repositories/{world.repository['id']}")

    assert found == {"repository_id": world.repository["id"], "failed_archives": [], "truncated_archives": []}


def test_derived_data_is_not_shown_without_a_right_on_the_repository(world: World) -> None:
    found = get(world.running.stranger, "/api/operations/repositories")

    assert found["repositories"] == []
    assert set(found["totals"].values()) == {0}
    answer = world.running.stranger.get(f"/api/operations/repositories/{world.repository['id']}")
    assert error_of(answer)[0] == 404
    assert error_of(world.admin.get("/api/operations/repositories/999999999"))[0] == 404
