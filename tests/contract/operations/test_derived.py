"""POST /api/operations/reconcile and GET /api/operations/repositories"""

import pytest

from tests.contract.fields import DERIVED_DATA, HISTORY_COUNTS, error_of, is_timestamp
from tests.support.running import Running, Services


@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
def test_a_reconcile_tick_queues_stale_derived_data_once(services: Services, store: str) -> None:
    with services.own(store) as running:  # a tick processes every repository of the service
        look_at_a_tick(running)


def look_at_a_tick(running: Running) -> None:
    admin = running.admin
    repository = running.new_repository(index_mode="off")
    known = len(admin.get("/api/repositories/").json()["repositories"])
    waiting = {"repository_id": repository["id"], "status": "pending"}
    admin.post("/api/operations/pause")
    try:
        nothing = admin.post("/api/operations/reconcile")
        admin.put(f"/api/repositories/{repository['id']}", json={"index_mode": "archives"})
        for item in admin.get("/api/operations/", params=waiting).json()["items"]:
            admin.post(f"/api/operations/{item['id']}/cancel")
        first, again = (admin.post("/api/operations/reconcile") for _ in range(2))
        queued = admin.get("/api/operations/", params=waiting).json()["items"]
    finally:
        admin.put(f"/api/repositories/{repository['id']}", json={"index_mode": "off"})
        admin.post("/api/operations/resume")

    assert nothing.json() == {"repositories": known, "enqueued": 0}
    assert first.json() == {"repositories": known, "enqueued": len(queued)}
    assert again.json() == {"repositories": known, "enqueued": 0}
    assert {(item["trigger"], item["priority"], item["category"]) for item in queued} == {("reconcile", 20, "index")}
    assert queued[-1]["queued_reason"] == "paused"
    assert is_timestamp(admin.get("/api/operations/repositories").json()["last_reconcile_at"])


def test_each_visible_repository_has_a_row_of_derived_data(running: Running) -> None:
    known = running.known.repository
    viewer = running.client_with_right(known, "viewer")

    answer = viewer.get("/api/operations/repositories")

    assert answer.status_code == 200
    assert set(answer.json()) == {"repositories", "totals", "last_reconcile_at", "reconcile_interval_minutes"}
    assert answer.json()["reconcile_interval_minutes"] == 60
    (row,) = answer.json()["repositories"]
    assert set(row) == DERIVED_DATA
    assert (row["repository_id"], row["repository_name"]) == (known["id"], known["name"])
    assert (row["index_mode"], row["sync_state"]) == ("off", "never")
    assert set(row["history"]) == set(answer.json()["totals"]) == HISTORY_COUNTS
    assert running.stranger.get("/api/operations/repositories").json()["repositories"] == []
    everyone = running.admin.get("/api/operations/repositories").json()["repositories"]
    assert known["id"] in [row["repository_id"] for row in everyone]


def test_the_archives_behind_a_row_are_shown_only_for_visible_repositories(running: Running) -> None:
    known = running.known.repository["id"]

    answer = running.admin.get(f"/api/operations/repositories/{known}")

    assert answer.json() == {"repository_id": known, "failed_archives": [], "truncated_archives": []}
    hidden = running.stranger.get(f"/api/operations/repositories/{known}")
    assert error_of(hidden) == (404, "repository.not_found")
    assert error_of(running.admin.get("/api/operations/repositories/999999")) == (404, "repository.not_found")
