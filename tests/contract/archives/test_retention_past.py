"""The restore points that existed on past days, over HTTP."""

import shutil
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.contract.archives.world import World, wait_for_index
from tests.contract.fields import error_of, is_timestamp

POINT = {"archive_id", "name", "series", "start", "gone_at"}


def a_copy(world: World) -> dict[str, Any]:
    """The same archives in another repository, where tests may remove some."""
    place = world.running.folder / world.running.new_name("past")
    shutil.copytree(world.story.repository, place)
    config = place / "config"
    text = config.read_text()
    engine_id = next(line.split("=")[1].strip() for line in text.splitlines() if line.startswith("id ="))
    config.write_text(text.replace(engine_id, engine_id[1:] + engine_id[0]))
    body = {"name": place.name, "path": str(place), "encryption": "none", "source_paths": [str(world.story.docs)]}
    answer = world.admin.post("/api/repositories/import", json=body)
    assert answer.status_code == 201, answer.text
    wait_for_index(world.admin, answer.json())
    found: dict[str, Any] = answer.json()
    return found


def test_past_days_count_the_archives_that_existed(world: World) -> None:
    found = world.get("/retention/past", days=3660)

    assert found["until"] == datetime.now(UTC).date().isoformat()
    assert found["since"] < found["recorded_since"][:10] <= found["until"], "since the repository was added"
    assert {one["name"] for one in found["points"]} >= {
        one["name"] for one in world.get("/archives", limit=100)["archives"]
    }
    assert all(set(one) == POINT and is_timestamp(one["start"]) for one in found["points"])
    assert len(found["counts"]) == 3661
    assert found["counts"][-1]["restore_points"] == 5
    docs = world.get("/retention/past", days=3660, series="docs")
    assert (docs["points_count"], docs["counts"][-1]["restore_points"]) == (3, 3)
    assert len(world.get("/retention/past", days=0)["counts"]) == 1


def test_a_removed_archive_counts_until_the_day_it_was_removed(world: World) -> None:
    repository = a_copy(world)
    url = f"/api/repositories/{repository['id']}"
    before = world.admin.get(f"{url}/retention/past", params={"days": 3660}).json()
    answer = world.admin.post(f"{url}/prune", json={"keep_last": 2, "dry_run": False})
    assert world.admin.wait_for_end(answer.json()["job_id"])["status"] == "completed"

    after = world.admin.get(f"{url}/retention/past", params={"days": 3660}).json()

    gone = [one for one in after["points"] if one["gone_at"] is not None]
    assert len(gone) == 3
    assert all(one["archive_id"] is None and is_timestamp(one["gone_at"]) for one in gone)
    assert [one["name"] for one in after["points"]] == [one["name"] for one in before["points"]]
    today = datetime.now(UTC).date()
    yesterday = (today - timedelta(days=1)).isoformat()
    assert {one["day"]: one["restore_points"] for one in after["counts"]}[yesterday] == 5
    assert after["counts"][-1] == {"day": today.isoformat(), "restore_points": 2}


@pytest.mark.parametrize("params", [{"days": -1}, {"days": 3661}, {"days": "all"}, {"series": "x" * 5000}])
def test_a_bad_span_is_refused(world: World, params: dict[str, Any]) -> None:
    assert world.admin.get(f"{world.url}/retention/past", params=params).status_code == 422


def test_a_user_without_rights_gets_404(world: World) -> None:
    answer = world.running.stranger.get(f"{world.url}/retention/past")

    assert error_of(answer) == (404, "repository.not_found")
