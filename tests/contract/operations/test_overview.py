"""The overview: whether everything can be restored, for those who may see it."""

from pathlib import Path

import pytest

from tests.contract.fields import error_of
from tests.support.running import Running


@pytest.fixture
def sources(running: Running) -> Path:
    folder = running.new_path("sources")
    folder.mkdir()
    (folder / "a").write_text("a")
    return folder


def test_a_repository_is_at_risk_until_it_is_backed_up_and_unproven_until_a_restore_check(
    running: Running, sources: Path
) -> None:
    admin = running.admin
    repository = admin.create_repository(running.new_path("repository"), [sources], index_mode="archives")

    def row() -> dict[str, object]:
        page = admin.get("/api/overview/repositories", params={"q": repository["name"]}).json()
        return next(one for one in page["repositories"] if one["id"] == repository["id"])

    assert (row()["verdict"], row()["reason"]) == ("at_risk", "backup_never")
    admin.wait_for_end(admin.start_backup(repository))
    running.wait_until_idle()
    assert (row()["verdict"], row()["reason"]) == ("unproven", "restore_check_never")
    proof = admin.post(f"/api/repositories/{repository['id']}/restore-check", json={}).json()["job_id"]
    assert admin.wait_for_end(proof)["status"] == "completed"
    running.wait_until_idle()
    assert row()["verdict"] == "proven"
    overview = admin.get("/api/overview").json()
    assert overview["newest_proof"]["operation_id"] == proof
    days = row()["days"]
    assert isinstance(days, list)
    assert (len(days), days[-1]["archives"]) == (42, 1)


def test_a_users_overview_counts_only_visible_repositories(running: Running, sources: Path) -> None:
    mine = running.admin.create_repository(running.new_path("mine"), [sources])
    running.admin.create_repository(running.new_path("hidden"), [sources])
    viewer = running.client_with_right(mine, "viewer")
    overview = viewer.get("/api/overview").json()
    assert [one["id"] for one in overview["repositories"]] == [mine["id"]]
    assert sum(overview["counts"].values()) == 1
    assert {one["repository_id"] for one in overview["attention"]} <= {mine["id"]}
    page = viewer.get("/api/overview/repositories").json()
    assert (page["total"], sum(page["counts"].values())) == (1, 1)


def test_pages_of_the_overview_list_every_repository_once(running: Running, sources: Path) -> None:
    for _ in range(3):
        running.admin.create_repository(running.new_path("paged"), [sources])
    seen: list[int] = []
    cursor = None
    while True:
        params = {"limit": 2, "sort": "name", **({"cursor": cursor} if cursor else {})}
        page = running.admin.get("/api/overview/repositories", params=params).json()
        seen += [one["id"] for one in page["repositories"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert len(seen) == len(set(seen)) == page["total"]


@pytest.mark.parametrize("params", [{"tz": "Mars/Olympus"}, {"sort": "luck"}, {"state": "fine"}, {"cursor": "x"}])
def test_invalid_parameters_are_refused_with_422(running: Running, params: dict[str, str]) -> None:
    assert running.admin.get("/api/overview/repositories", params=params).status_code == 422


def test_an_unknown_time_zone_is_refused_with_its_own_key(running: Running) -> None:
    assert error_of(running.admin.get("/api/overview", params={"tz": "Mars/Olympus"})) == (
        422,
        "archives.unknown_timezone",
    )
