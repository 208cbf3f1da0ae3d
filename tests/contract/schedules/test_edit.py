"""Creating, reading, changing and deleting schedules over HTTP."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.contract.fields import is_timestamp
from tests.contract.schedules.scheduled import NIGHTLY, SCHEDULE, URL, Scheduled, refused


def test_a_schedule_is_created_with_defaults_and_can_be_read(scheduled: Scheduled) -> None:
    repository = scheduled.shared
    created = scheduled.new(repository)

    assert set(created) == SCHEDULE
    assert created["steps"] == [{"kind": "backup"}]
    assert created["targets"]["repository_ids"] == [repository["id"]]
    assert created["repositories"] == [{"id": repository["id"], "name": repository["name"]}]
    assert (created["enabled"], created["revision"], created["created_by"]) == (True, 1, "admin")
    assert (created["catch_up"], created["overlap"], created["retries"]) == ("once", "skip", 3)
    assert (created["spread_minutes"], created["start_within_minutes"]) == (0, 60)
    assert created["explained"] == "At 02:30 every day (Europe/Berlin)"
    assert created["longest_gap_seconds"] == 25 * 3600
    assert is_timestamp(created["next_due_at"])
    assert created["next_run"] == created["next_due_at"]
    assert (created["last_run"], created["last_result"], created["waiting"]) == (None, None, [])
    assert scheduled.read(created) == created
    assert created in scheduled.client.get(f"{URL}/").json()["schedules"]


def test_steps_are_kept_in_the_order_in_which_they_run(scheduled: Scheduled) -> None:
    steps = [{"kind": "check", "every_days": 7}, {"kind": "prune", "keep_daily": 7}, {"kind": "backup"}]
    created = scheduled.new(scheduled.shared, steps=steps)

    assert [step["kind"] for step in created["steps"]] == ["backup", "prune", "check"]
    assert created["steps"][1]["keep_daily"] == 7


def test_several_targets_are_spread_by_default(scheduled: Scheduled) -> None:
    two = [scheduled.shared, scheduled.running.new_repository()]

    assert scheduled.new(*two)["spread_minutes"] == 30
    assert scheduled.new(*two, spread_minutes=0)["spread_minutes"] == 0


def test_flat_fields_become_targets_and_steps(scheduled: Scheduled) -> None:
    repository = scheduled.shared
    flat = {
        "repository_id": repository["id"],
        "run_prune_after": True,
        "run_compact_after": True,
        "run_check_after": True,
        "prune_keep_daily": 7,
        "prune_keep_weekly": 4,
    }
    created = scheduled.new(**flat)

    assert created["targets"]["repository_ids"] == [repository["id"]]
    assert created["steps"] == [
        {"kind": "backup"},
        {"kind": "prune", "keep_daily": 7, "keep_weekly": 4},
        {"kind": "compact"},
        {"kind": "check"},
    ]
    changed = scheduled.client.put(f"{URL}/{created['id']}", json={"run_check_after": False, "prune_keep_daily": 14})
    assert changed.json()["steps"] == [
        {"kind": "backup"},
        {"kind": "prune", "keep_daily": 14, "keep_weekly": 4},
        {"kind": "compact"},
    ]


def test_a_repository_may_be_named_by_its_path(scheduled: Scheduled) -> None:
    repository = scheduled.shared

    assert scheduled.new(repository=repository["path"])["targets"]["repository_ids"] == [repository["id"]]
    answer = scheduled.client.post(f"{URL}/", json=scheduled.body(repository="/nowhere/at/all"))
    assert refused(answer, 404)["key"] == "repository.not_registered"


def test_the_older_prefix_serves_the_same_routes(scheduled: Scheduled) -> None:
    created = scheduled.new(scheduled.shared)

    assert scheduled.client.get(f"/api/schedule/{created['id']}").json() == created
    assert scheduled.client.post(f"/api/schedule/{created['id']}/toggle").json()["enabled"] is False
    assert scheduled.client.post(f"/api/schedule/{created['id']}/toggle").json()["enabled"] is True
    assert scheduled.client.get("/api/schedule/cron-presets").status_code == 200


def test_a_change_increments_the_revision_and_an_old_revision_is_refused(scheduled: Scheduled) -> None:
    created = scheduled.new(scheduled.shared)
    place = f"{URL}/{created['id']}"

    changed = scheduled.client.put(place, json={"cron_expression": "0 4 * * *", "revision": 1}).json()
    assert (changed["revision"], changed["cron_expression"]) == (2, "0 4 * * *")
    assert changed["next_due_at"] != created["next_due_at"]
    conflict = refused(scheduled.client.put(place, json={"retries": 0, "revision": 1}), 409)
    assert (conflict["key"], conflict["params"]) == ("schedules.revision_conflict", {"given": 1, "current": 2})
    assert scheduled.read(created) == changed


def test_a_change_of_other_fields_keeps_the_next_due_time(scheduled: Scheduled) -> None:
    created = scheduled.new(scheduled.shared)
    changed = scheduled.client.put(f"{URL}/{created['id']}", json={"description": "of the shop", "retries": 1}).json()

    assert (changed["description"], changed["retries"]) == ("of the shop", 1)
    assert changed["next_due_at"] == created["next_due_at"]
    cleared = scheduled.client.put(f"{URL}/{created['id']}", json={"description": None}).json()
    assert cleared["description"] is None


def test_a_name_cannot_be_used_twice_until_its_schedule_is_deleted(scheduled: Scheduled) -> None:
    repository = scheduled.shared
    created, other = scheduled.new(repository), scheduled.new(repository)
    again = scheduled.client.post(f"{URL}/", json={**scheduled.body(repository), "name": created["name"]})
    renamed = scheduled.client.put(f"{URL}/{other['id']}", json={"name": created["name"]})

    assert refused(again, 409)["key"] == "schedules.name_taken"
    assert refused(renamed, 409)["key"] == "schedules.name_taken"
    assert scheduled.client.delete(f"{URL}/{created['id']}").status_code == 204
    assert scheduled.new(repository, name=created["name"])["name"] == created["name"]


def test_a_disabled_schedule_has_no_due_time_until_it_is_enabled(scheduled: Scheduled) -> None:
    created = scheduled.new(scheduled.shared)
    place = f"{URL}/{created['id']}"

    disabled = scheduled.client.post(f"{place}/disable").json()
    assert (disabled["enabled"], disabled["next_due_at"], disabled["next_run"]) == (False, None, None)
    assert scheduled.client.get(f"{place}/next").json() == {"fires": []}
    assert created["id"] in _ids(scheduled, enabled=False)
    assert created["id"] not in _ids(scheduled, enabled=True)
    enabled = scheduled.client.post(f"{place}/enable").json()
    assert (enabled["enabled"], enabled["next_due_at"]) == (True, created["next_due_at"])
    assert scheduled.client.post(f"{place}/enable").json()["revision"] == enabled["revision"]


def test_a_snooze_skips_due_times_until_it_ends(scheduled: Scheduled) -> None:
    created = scheduled.new(scheduled.shared)
    place = f"{URL}/{created['id']}"
    until = datetime.now(UTC) + timedelta(days=3)

    snoozed = scheduled.client.post(f"{place}/snooze", json={"until": until.isoformat()}).json()
    assert datetime.fromisoformat(snoozed["snoozed_until"]) == until
    assert datetime.fromisoformat(snoozed["next_run"]) >= until
    reasons = [fire["reason"] for fire in scheduled.client.get(f"{place}/next?count=5").json()["fires"]]
    assert reasons == ["snoozed"] * 3 + ["on_time"] * 2
    awake = scheduled.client.post(f"{place}/snooze", json={"until": None}).json()
    assert (awake["snoozed_until"], awake["next_run"]) == (None, created["next_run"])
    past = scheduled.client.post(f"{place}/snooze", json={"until": "2020-01-01T00:00:00Z"})
    assert refused(past, 422)["key"] == "schedules.not_in_the_future"


def test_a_copy_is_disabled_and_has_its_own_name(scheduled: Scheduled) -> None:
    created = scheduled.new(scheduled.shared, steps=[{"kind": "backup"}, {"kind": "compact"}])
    place = f"{URL}/{created['id']}/duplicate"

    first, second = scheduled.client.post(place).json(), scheduled.client.post(place).json()
    assert [each["name"] for each in (first, second)] == [
        f"Copy of {created['name']}",
        f"Copy of {created['name']} (2)",
    ]
    assert (first["enabled"], first["steps"], first["targets"]) == (False, created["steps"], created["targets"])
    assert first["uuid"] != created["uuid"]
    name = scheduled.running.new_name("copied")
    assert scheduled.client.post(place, json={"name": name}).json()["name"] == name


def test_a_deleted_schedule_is_gone_but_its_history_stays(scheduled: Scheduled) -> None:
    created, waiting = scheduled.waiting(scheduled.shared)
    assert [row["waiting_for"] for row in scheduled.read(created)["waiting"]] == ["window"]

    assert scheduled.client.delete(f"{URL}/{created['id']}").status_code == 204
    assert refused(scheduled.client.get(f"{URL}/{created['id']}"), 404)["key"] == "schedules.not_found"
    row = scheduled.run_row(waiting["id"])
    assert (row["outcome"], row["reason"]) == ("skipped", "deleted")
    runs = scheduled.client.get(f"{URL}/{created['id']}/runs").json()["runs"]
    assert [each["id"] for each in runs] == [waiting["id"]]
    assert refused(scheduled.client.delete(f"{URL}/{created['id']}"), 404)["key"] == "schedules.not_found"


def test_every_change_is_audited(scheduled: Scheduled) -> None:
    created = scheduled.new(scheduled.shared)
    place = f"{URL}/{created['id']}"
    until = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    for path in ("disable", "enable"):
        scheduled.client.post(f"{place}/{path}")
    scheduled.client.post(f"{place}/snooze", json={"until": until})
    scheduled.client.put(place, json={"retries": 5})
    scheduled.client.delete(place)

    words = ("created", "disabled", "enabled", "snoozed", "changed", "deleted")
    for action in [f"schedule.{word}" for word in words]:
        entries = [entry for entry in scheduled.audit(action) if entry["object_id"] == str(created["id"])]
        assert [entry["details"]["name"] for entry in entries] == [created["name"]], action


@pytest.mark.parametrize(
    ("wrong", "key", "params"),
    [
        ({"cron_expression": "61 2 * * *"}, "bad_cron", {"field": "minute"}),
        ({"cron_expression": "0 2 * *"}, "bad_cron", {"field": "expression"}),
        ({"cron_expression": None}, "bad_cron", {"field": "expression"}),
        ({"cron_expression": "0 0 30 2 *"}, "never_fires", {}),
        ({"cron_expression": "* * * * *"}, "too_often", {"least_minutes": 5}),
        ({"cron_expression": "0,58 0,23 * * *"}, "too_often", {"least_minutes": 5}),
        ({"schedule_mode": "interval", "interval_minutes": 4}, "too_often", {"least_minutes": 5}),
        ({"schedule_mode": "interval"}, "field_missing", {"field": "interval_minutes"}),
        ({"timezone": "Europe/Nowhere"}, "unknown_timezone", {"timezone": "Europe/Nowhere"}),
        ({"targets": None}, "no_targets", {}),
        ({"targets": {"repository_ids": []}}, "no_targets", {}),
        ({"targets": {"labels": {}}}, "no_targets", {}),
        ({"targets": {"all": False}}, "no_targets", {}),
        ({"steps": [{"kind": "backup"}, {"kind": "prune"}]}, "no_retention", {}),
        ({"steps": [{"kind": "prune", "keep_daily": 0}]}, "no_retention", {}),
        ({"steps": [{"kind": "dump"}, {"kind": "dump"}]}, "step_unsupported", {"step": "dump"}),
        ({"steps": [{"kind": "check"}, {"kind": "check"}]}, "step_unsupported", {"step": "check"}),
    ],
)
def test_a_schedule_that_cannot_work_is_refused_with_a_specific_key(
    scheduled: Scheduled, wrong: dict[str, Any], key: str, params: dict[str, Any]
) -> None:
    repository = scheduled.running.known.repository
    body = {**scheduled.body(repository), **wrong}
    places = [""] if key == "no_targets" else ["", "preview"]
    answers = [scheduled.client.post(f"{URL}/{path}", json=body) for path in places]

    for answer in answers:
        error = refused(answer, 422)
        assert error["key"] == f"schedules.{key}"
        assert error["params"].items() >= params.items()


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"cron_expressions": NIGHTLY},
        {"targets": {"repository_ids": [1], "all": True}},
        {"targets": {"repositories": [1]}},
        {"steps": [{"kind": "backup", "every_day": 1}]},
        {"steps": [{"kind": "wipe"}]},
        {"windows": [{"from": "25:00"}]},
        {"windows": [{"days": ["monday"]}]},
        {"retries": -1},
        {"spread_minutes": 5000},
        {"overlap": "both"},
        {"uuid": "no"},
    ],
)
def test_a_malformed_schedule_is_refused(scheduled: Scheduled, wrong: dict[str, Any]) -> None:
    body = {**scheduled.body(scheduled.running.known.repository), **wrong}

    assert scheduled.client.post(f"{URL}/", json=body).status_code == 422


def test_a_prune_step_may_use_the_retention_of_the_repository(scheduled: Scheduled) -> None:
    repository = scheduled.running.new_repository(retention={"keep_daily": 7})

    assert scheduled.new(repository, steps=[{"kind": "backup"}, {"kind": "prune"}])["steps"][1] == {"kind": "prune"}


def test_an_availability_schedule_gets_default_intervals(scheduled: Scheduled) -> None:
    body = {"schedule_mode": "availability", "cron_expression": None}
    created = scheduled.new(scheduled.shared, enabled=False, **body)

    assert created["min_success_interval_minutes"] == 24 * 60
    assert created["availability_check_interval_minutes"] == 15
    assert created["longest_gap_seconds"] == 24 * 3600
    assert created["explained"] == "When the machine is available and the last success is older than 1 day"


def _ids(scheduled: Scheduled, **params: Any) -> list[int]:
    answer = scheduled.client.get(f"{URL}/", params=params)
    assert answer.status_code == 200, answer.text
    return [schedule["id"] for schedule in answer.json()["schedules"]]


def test_the_list_can_be_filtered_by_repository_and_label(scheduled: Scheduled) -> None:
    site = scheduled.running.new_name("site")
    labelled = scheduled.running.new_repository(labels={"site": site, "tier": "1"})
    other = scheduled.running.new_repository()
    first, second = scheduled.new(labelled), scheduled.new(other)
    by_label = scheduled.new(targets={"labels": {"site": site}}, enabled=False)

    assert set(_ids(scheduled, repository_id=labelled["id"])) == {first["id"], by_label["id"]}
    assert set(_ids(scheduled, label=f"site={site}")) == {first["id"], by_label["id"]}
    assert set(_ids(scheduled, label=[f"site={site}", "tier"])) == {first["id"], by_label["id"]}
    assert _ids(scheduled, label=[f"site={site}", "tier=2"]) == []
    assert _ids(scheduled, repository_id=other["id"]) == [second["id"]]


def test_labels_are_settings_of_a_repository_and_filter_the_list(scheduled: Scheduled) -> None:
    site = scheduled.running.new_name("site")
    repository = scheduled.running.new_repository(labels={"site": site})
    place = f"/api/repositories/{repository['id']}"

    def listed(label: str) -> list[int]:
        answer = scheduled.client.get("/api/repositories/", params={"label": label})
        return [each["id"] for each in answer.json()["repositories"]]

    assert repository["labels"] == {"site": site}
    assert listed(f"site={site}") == [repository["id"]]
    assert scheduled.client.put(place, json={"labels": {"tier": "2"}}).json()["labels"] == {"tier": "2"}
    assert listed(f"site={site}") == []
    assert scheduled.client.put(place, json={"labels": {"": "x"}}).status_code == 422


def test_targets_by_label_follow_the_labels_of_repositories(scheduled: Scheduled) -> None:
    site = scheduled.running.new_name("site")
    created = scheduled.new(targets={"labels": {"site": site}}, enabled=False)
    assert created["repositories"] == []

    repository = scheduled.running.new_repository(labels={"site": site})
    assert [each["id"] for each in scheduled.read(created)["repositories"]] == [repository["id"]]
    scheduled.client.put(f"{URL}/{created['id']}", json={"exclude_repository_ids": [repository["id"]]})
    assert scheduled.read(created)["repositories"] == []
