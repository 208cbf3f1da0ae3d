"""What retention policies would keep, today and in the future."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from tests.contract.archives.world import World, wait_for_index
from tests.contract.fields import error_of, is_timestamp
from tests.support.archive_sets import OwnEngine
from tests.support.engines import ENGINES


def simulated(world: World, **body: Any) -> dict[str, Any]:
    answer = world.admin.post(f"{world.url}/retention/simulate", json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def today() -> date:
    return datetime.now(UTC).date()


def test_a_simulation_removes_the_same_archives_as_a_dry_run_of_the_engine(world: World) -> None:
    for policy in ({"keep_last": 2}, {"keep_daily": 1, "keep_yearly": 1}, {"keep_within": "1y", "keep_monthly": 1}):
        ours = simulated(world, policy=policy)["simulated"]
        answer = world.admin.post(f"{world.url}/prune", json={**policy, "dry_run": True})
        assert answer.status_code == 200, answer.text
        theirs = answer.json()["prune_result"]

        assert {one["name"]: one["rule"] for one in ours["archives"] if one["rule"]} == {
            one["archive"]: one["rule"] for one in theirs["keep"]
        }
        assert (ours["kept_now"], ours["removed_now"]) == (theirs["kept_count"], theirs["pruned_count"])


def test_the_losses_of_a_policy_are_those_of_the_archives_it_would_remove(world: World) -> None:
    found = simulated(world, policy={"keep_last": 1})["simulated"]
    going = [one["archive_id"] for one in found["archives"] if one["rule"] is None]
    body = {"archive_ids": going, "limit": 20}

    assert found["losses"] == world.admin.post(f"{world.url}/losses", json=body).json()
    assert found["losses"]["paths_lost"] > 0
    assert simulated(world, policy={"keep_last": 100})["simulated"]["losses"] is None


def test_future_days_gain_simulated_backups_and_are_thinned_out_by_the_policy(world: World) -> None:
    last = today() + timedelta(days=60)
    found = simulated(world, policy={"keep_daily": 7}, until=last.isoformat(), every_minutes=24 * 60)

    assert found["until"] == last.isoformat()
    assert found["backups"] == {"origin": "request", "every_minutes": 24 * 60, "count": found["backups"]["count"]}
    assert found["backups"]["count"] in (60, 61)
    policy = found["simulated"]
    assert [one["day"] for one in policy["counts"]] == [
        (today() + timedelta(days=number)).isoformat() for number in range(61)
    ]
    assert {one["restore_points"] for one in policy["counts"][7:]} == {7}
    assert [one["restore_points"] for one in policy["days"]] == [1] * 7
    assert is_timestamp(policy["oldest"])
    assert {gap["age"] for gap in policy["gaps"]} == {"day", "week"}
    assert all(0 < gap["worst_seconds"] <= 24 * 3600 for gap in policy["gaps"])


def test_two_policies_are_compared_over_the_same_backups(world: World) -> None:
    found = simulated(world, policy={"keep_daily": 3}, compare_with={"keep_daily": 5}, every_minutes=24 * 60)

    ends = [sum(one["restore_points"] for one in found[which]["days"]) for which in ("simulated", "compared")]
    assert ends == [3, 5]
    assert found["compared"]["policy"]["keep_daily"] == 5


def test_with_too_few_backups_a_reason_replaces_the_forecast(world: World) -> None:
    nothing = {"now": None, "basis": None, "points": []}

    every = simulated(world, policy={"keep_last": 1})["simulated"]["forecast"]
    assert every == {**nothing, "reason": "too_few_backups"}
    found = simulated(world, policy={"keep_last": 1}, compare_with={"keep_last": 2}, series="docs")
    assert found["simulated"]["forecast"] == {**nothing, "reason": "too_few_backups"}
    assert found["compared"]["forecast"] == {**nothing, "reason": "too_few_backups"}


def test_one_series_can_be_simulated_alone(world: World) -> None:
    docs = simulated(world, policy={"keep_last": 1}, series="docs")
    assert docs["archives"] == 3
    assert {world.word(one["archive_id"]) for one in docs["simulated"]["archives"]} == {"d1", "d2", "d3"}
    assert simulated(world, policy={"keep_last": 1}, series="nothing")["archives"] == 0


def test_without_a_schedule_the_backup_interval_is_taken_from_the_past(world: World) -> None:
    assert simulated(world, policy={"keep_last": 1})["backups"]["origin"] == "past"
    assert simulated(world, policy={"keep_last": 1}, series="web")["backups"]["origin"] == "assumed"


def test_four_backups_within_two_minutes_are_not_taken_as_the_usual_interval(world: World) -> None:
    place = world.running.folder / world.running.new_name("first-hour")
    engine = OwnEngine(ENGINES["1.4"], world.story.folder / "data")
    engine.run("init", "--encryption=none", str(place))
    started = datetime.now(UTC) - timedelta(minutes=5)
    made = [(f"a{number}", started + number * timedelta(seconds=40)) for number in range(4)]
    engine.make({"path": str(place)}, made, world.story.web)
    answer = world.admin.post(
        "/api/repositories/import", json={"name": place.name, "path": str(place), "encryption": "none"}
    )
    assert answer.status_code == 201, answer.text
    wait_for_index(world.admin, answer.json())

    url = f"/api/repositories/{answer.json()['id']}/retention/simulate"
    found = world.admin.post(url, json={"policy": {"keep_daily": 7}, "compare_with": {"keep_weekly": 4}})

    assert found.status_code == 200, found.text
    assert found.json()["archives"] == 4
    assert found.json()["backups"]["origin"] == "assumed"
    assert found.json()["until"] == (today() + timedelta(days=90)).isoformat()


def test_the_shortest_interval_fits_the_default_days(world: World) -> None:
    found = simulated(world, policy={"keep_daily": 7, "keep_within": "2d"}, every_minutes=5)

    assert (found["until"], found["is_shortened"]) == ((today() + timedelta(days=90)).isoformat(), False)
    assert found["backups"]["count"] > 90 * 24 * 60 / 5 - 300


def test_days_that_would_take_too_long_to_simulate_are_left_out(world: World) -> None:
    body = {"policy": {"keep_last": 9}, "compare_with": {"keep_within": "9y", "keep_daily": 7, "keep_weekly": 4}}
    body = {**body, "compare_with": {**body["compare_with"], "keep_monthly": 6}, "every_minutes": 5}
    found = simulated(world, **body)

    until = date.fromisoformat(found["until"])
    assert found["is_shortened"] is True
    assert today() + timedelta(days=30) < until < today() + timedelta(days=90)
    for policy in (found["simulated"], found["compared"]):
        assert policy["counts"][-1]["day"] == found["until"]
    assert found["compared"]["counts"][-1]["restore_points"] == found["archives"] + found["backups"]["count"]


@pytest.mark.parametrize(
    ("body", "key"),
    [
        ({"policy": {}}, "prune.empty_policy"),
        ({"policy": {"keep_daily": 0}}, "prune.empty_policy"),
        ({"policy": {"keep_last": 1}, "compare_with": {}}, "prune.empty_policy"),
        ({"policy": {"keep_within": "5M"}}, "engine.invalid_request"),
        ({"policy": {"keep_last": 1}, "until": "2020-01-01"}, "retention.until_out_of_range"),
        ({"policy": {"keep_last": 1}, "until": "2999-01-01"}, "retention.until_out_of_range"),
        ({"policy": {"keep_within": "9y"}, "every_minutes": 5, "until": "+731"}, "retention.too_much"),
        ({"policy": {"keep_within": "9y"}, "every_minutes": 60, "until": "+731"}, "retention.too_much"),
        ({"policy": {"keep_last": 1}, "every_minutes": 4}, None),
        ({"policy": {"keep_sometimes": 1}}, None),
        ({"policies": {}}, None),
    ],
)
def test_invalid_simulations_are_refused(world: World, body: dict[str, Any], key: str | None) -> None:
    if str(body.get("until", "")).startswith("+"):
        body = {**body, "until": (today() + timedelta(days=int(body["until"]))).isoformat()}
    answer = world.admin.post(f"{world.url}/retention/simulate", json=body)

    assert (answer.status_code if key is None else error_of(answer)) == (422 if key is None else (422, key))


def test_a_user_without_rights_gets_404(world: World) -> None:
    answer = world.running.stranger.post(f"{world.url}/retention/simulate", json={"policy": {"keep_last": 1}})

    assert error_of(answer) == (404, "repository.not_found")


def test_a_schedule_determines_when_backups_are_simulated(world: World) -> None:
    body = {
        "name": world.running.new_name("simulated"),
        "cron_expression": "0 2 * * *",
        "timezone": "UTC",
        "targets": {"repository_ids": [world.repository["id"]]},
        "steps": [{"kind": "backup"}],
    }
    made = world.admin.post("/api/schedules/", json=body)
    assert made.status_code == 201, made.text
    try:
        found = simulated(world, policy={"keep_daily": 3}, until=(today() + timedelta(days=10)).isoformat())
    finally:
        assert world.admin.delete(f"/api/schedules/{made.json()['id']}").status_code in (200, 204)

    assert found["backups"]["origin"] == "schedule"
    assert found["backups"]["count"] in (10, 11)
    assert found["simulated"]["oldest"].endswith("02:00:00.000000+00:00")
