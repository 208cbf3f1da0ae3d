"""Rebuild, resync, index modes, follow-ups, reconcile and pause."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.archives.world import World, get, no_tick, run_index, wait_for_index
from tests.contract.fields import error_of
from tests.support.running import Running, Services
from tests.support.service import Client

QUEUED = {"run_id", "operations", "index_mode", "repeats"}


@pytest.fixture(scope="module")
def quiet(services: Services) -> Iterator[Running]:
    """A service that only this file uses: its tests switch the pause and must not hold follow-ups of others."""
    with services.own("postgresql") as running:
        no_tick(running.admin)
        yield running


@pytest.fixture
def paused(quiet: Running) -> Iterator[Running]:
    """A service that holds follow-up and reconcile work, so that tests can inspect what is queued."""
    assert quiet.admin.post("/api/operations/pause").json() == {"paused": True}
    yield quiet
    assert quiet.admin.post("/api/operations/resume").json() == {"paused": False}


def start(client: Client, repository: dict[str, Any], word: str, **body: Any) -> dict[str, Any]:
    answer = client.post(f"/api/repositories/{repository['id']}/{word}", json=body or None)
    assert answer.status_code == 200, answer.text
    queued: dict[str, Any] = answer.json()
    assert set(queued) == QUEUED
    return queued


def kinds_of(client: Client, queued: dict[str, Any]) -> list[str]:
    return [client.operation(operation)["kind"] for operation in queued["operations"]]


def index_work(client: Client, repository: dict[str, Any], *status: str) -> list[dict[str, Any]]:
    """Index operations of a repository, oldest first."""
    query = {"repository_id": repository["id"], "category": "index", "status": list(status)}
    return list(reversed(get(client, "/api/operations/", **query)["items"]))


def set_mode(client: Client, repository: dict[str, Any], mode: str) -> None:
    answer = client.put(f"/api/repositories/{repository['id']}", json={"index_mode": mode})
    assert answer.status_code == 200, answer.text
    assert answer.json()["index_mode"] == mode


# --- rebuild and resync -----------------------------------------------------------------------------------------------

STAGES = {
    ("full", "rebuild", "stats"): (["stats"], True),
    ("full", "rebuild", "archives"): (["archives", "stats", "history"], True),
    ("full", "rebuild", "history"): (["history"], True),
    ("full", "resync", None): (["archives", "stats", "history"], True),
    ("archives", "rebuild", "stats"): (["stats"], True),
    ("archives", "rebuild", "archives"): (["archives", "stats"], True),
    ("archives", "rebuild", "history"): ([], False),
    ("archives", "resync", None): (["archives", "stats"], True),
    ("off", "rebuild", "stats"): (["stats"], False),
    ("off", "rebuild", "archives"): (["archives", "stats"], False),
    ("off", "rebuild", "history"): ([], False),
    ("off", "resync", None): (["archives", "stats"], False),
}


@pytest.fixture(scope="module")
def empty(quiet: Running) -> dict[str, dict[str, Any]]:
    """A repository without archives for each mode."""
    return {mode: quiet.new_repository(index_mode=mode) for mode in ("full", "archives", "off")}


def test_a_manual_reconcile_runs_immediately_however_fresh_the_archive_list_is(quiet: Running) -> None:
    """Runs before the other tests, whose repositories in this service would be reconciled as well."""
    repository = quiet.new_repository(index_mode="archives")
    quiet.admin.wait_for_end(quiet.admin.start_backup(repository))
    wait_for_index(quiet.admin, repository)
    before = index_work(quiet.admin, repository)

    quiet.admin.post("/api/operations/reconcile")

    wait_for_index(quiet.admin, repository)
    queued = index_work(quiet.admin, repository)[len(before) :]
    assert [(one["kind"], one["trigger"]) for one in queued] == [("archives", "reconcile"), ("stats", "reconcile")]


@pytest.mark.parametrize(("mode", "word", "stage"), STAGES)
def test_each_mode_runs_its_stages_and_reports_whether_they_repeat(
    quiet: Running, empty: dict[str, dict[str, Any]], mode: str, word: str, stage: str | None
) -> None:
    kinds, repeats = STAGES[mode, word, stage]
    queued = start(quiet.admin, empty[mode], word, **({"from": stage} if stage else {}))
    found = [quiet.admin.operation(operation) for operation in queued["operations"]]

    assert [one["kind"] for one in found] == kinds
    assert (queued["index_mode"], queued["repeats"]) == (mode, repeats)
    assert {one["run_id"] for one in found} == ({queued["run_id"]} if found else set())
    assert [one["depends_on_id"] for one in found] == [None, *queued["operations"]][: len(found)]
    assert all((one["trigger"], one["priority"], one["category"]) == ("manual", 0, "index") for one in found)
    assert all(one["triggered_by"] == "admin" for one in found)
    for operation in queued["operations"]:
        assert quiet.admin.wait_for_end(operation)["status"] == "completed"


@pytest.mark.parametrize("body", [{"from": "everything"}, {"from": None}, {}, {"from": "stats", "more": 1}])
def test_a_rebuild_from_an_unknown_stage_is_refused_with_422_and_starts_nothing(
    quiet: Running, empty: dict[str, dict[str, Any]], body: dict[str, Any]
) -> None:
    before = index_work(quiet.admin, empty["off"])

    assert quiet.admin.post(f"/api/repositories/{empty['off']['id']}/rebuild", json=body).status_code == 422
    assert index_work(quiet.admin, empty["off"]) == before


def test_an_operator_may_rebuild_and_resync_the_repository(quiet: Running, empty: dict[str, dict[str, Any]]) -> None:
    operator = quiet.client_with_right(empty["off"], "operator")

    for word, body in (("rebuild", {"from": "history"}), ("resync", {})):
        queued = start(operator, empty["off"], word, **body)
        for operation in queued["operations"]:
            quiet.admin.wait_for_end(operation)


def test_a_user_without_rights_gets_404_for_rebuild_and_resync(
    quiet: Running, empty: dict[str, dict[str, Any]]
) -> None:
    url = f"/api/repositories/{empty['off']['id']}"

    assert error_of(quiet.stranger.post(f"{url}/rebuild", json={"from": "stats"}))[0] == 404
    assert error_of(quiet.stranger.post(f"{url}/resync"))[0] == 404


def test_a_rebuild_is_audited(quiet: Running, empty: dict[str, dict[str, Any]]) -> None:
    def entries() -> list[Any]:
        return [
            entry["object_id"]
            for entry in get(quiet.admin, "/api/audit", action="archives.rebuild_history", limit=200)["entries"]
        ]

    before = entries()
    start(quiet.admin, empty["off"], "rebuild", **{"from": "history"})

    assert entries() == [str(empty["off"]["id"]), *before]


# --- modes ------------------------------------------------------------------------------------------------------------


def test_leaving_full_cancels_queued_index_work(paused: Running) -> None:
    repository = paused.new_repository(index_mode="full")
    paused.admin.wait_for_end(paused.admin.start_backup(repository))
    assert [one["kind"] for one in index_work(paused.admin, repository, "pending")] == ["archives", "stats", "history"]

    set_mode(paused.admin, repository, "archives")

    assert index_work(paused.admin, repository, "pending") == []
    assert {one["status"] for one in index_work(paused.admin, repository)} <= {"cancelled", "skipped"}


def test_switching_back_to_full_queues_one_catch_up_run(paused: Running) -> None:
    repository = paused.new_repository(index_mode="archives")

    set_mode(paused.admin, repository, "full")
    set_mode(paused.admin, repository, "full")

    queued = index_work(paused.admin, repository)
    assert [one["kind"] for one in queued] == ["archives", "stats", "history"]
    assert {one["trigger"] for one in queued} == {"reconcile"}
    assert len({one["run_id"] for one in queued}) == 1


def test_switching_from_off_to_archives_queues_one_run_of_archives_and_stats(paused: Running) -> None:
    repository = paused.new_repository(index_mode="off")

    set_mode(paused.admin, repository, "archives")

    assert [one["kind"] for one in index_work(paused.admin, repository, "pending")] == ["archives", "stats"]


def test_switching_to_a_lesser_mode_queues_nothing(paused: Running) -> None:
    repository = paused.new_repository(index_mode="full")

    for mode in ("archives", "off"):
        set_mode(paused.admin, repository, mode)

    assert index_work(paused.admin, repository) == []


@pytest.mark.parametrize("mode", ["everything", "", None, 1])
def test_an_unknown_mode_is_refused_with_422(quiet: Running, empty: dict[str, dict[str, Any]], mode: object) -> None:
    answer = quiet.admin.put(f"/api/repositories/{empty['off']['id']}", json={"index_mode": mode})

    assert answer.status_code == 422
    assert get(quiet.admin, f"/api/repositories/{empty['off']['id']}")["index_mode"] == "off"


@pytest.mark.parametrize(("mode", "kinds"), [("archives", ["archives", "stats"]), ("off", [])])
def test_a_backup_is_followed_by_the_index_work_of_its_mode(paused: Running, mode: str, kinds: list[str]) -> None:
    repository = paused.new_repository(index_mode=mode)
    backup = paused.admin.wait_for_end(paused.admin.start_backup(repository))

    assert [one["kind"] for one in backup["followups"]] == kinds


def test_a_mode_without_history_skips_it_and_full_catches_up(quiet: Running) -> None:
    repository = quiet.new_repository(index_mode="archives")
    url = f"/api/repositories/{repository['id']}"
    quiet.admin.wait_for_end(quiet.admin.start_backup(repository))
    wait_for_index(quiet.admin, repository)
    found = get(quiet.admin, f"{url}/archives")
    assert (found["archives"][0]["history_state"], found["history_available"]) == ("skipped", False)
    (row,) = [
        one
        for one in get(quiet.admin, "/api/operations/repositories")["repositories"]
        if one["repository_id"] == repository["id"]
    ]
    assert (row["history"]["skipped"], row["history"]["pending"], row["archives"]) == (1, 0, 1)

    set_mode(quiet.admin, repository, "full")
    wait_for_index(quiet.admin, repository)

    found = get(quiet.admin, f"{url}/archives")
    assert (found["archives"][0]["history_state"], found["history_available"]) == ("indexed", True)
    assert found["archives"][0]["backup_operation_id"] is not None


def test_excluded_files_are_left_out_of_history_and_changed_patterns_reindex_all_archives(quiet: Running) -> None:
    source = quiet.new_source()
    (source / "a.log").write_text("log")
    repository = quiet.new_repository(source_paths=[source], index_mode="full")
    url = f"/api/repositories/{repository['id']}"
    quiet.admin.wait_for_end(quiet.admin.start_backup(repository))
    wait_for_index(quiet.admin, repository)
    assert len(get(quiet.admin, f"{url}/search", q="a.log")["results"]) == 1

    changed = quiet.admin.put(url, json={"history_index_excludes": ["*.log"]})
    assert changed.json()["history_index_excludes"] == ["*.log"]
    (source / "file-0").write_text("changed")
    quiet.admin.wait_for_end(quiet.admin.start_backup(repository))
    wait_for_index(quiet.admin, repository)

    assert get(quiet.admin, f"{url}/search", q="a.log")["results"] == []
    newest = get(quiet.admin, f"{url}/archives")["archives"][0]["id"]
    rows = get(quiet.admin, f"{url}/archives/{newest}/changes")
    assert {row["path"].rsplit("/", 1)[-1] for row in rows["changes"]} == {"file-0"}, "what is left out did not go"
    shown = get(quiet.admin, f"{url}/archives/{newest}/browse", path=str(source))
    assert shown["excludes"] == ["*.log"]
    assert "a.log" not in {entry["name"] for entry in shown["entries"]}


# --- follow-ups, reconcile, pause -------------------------------------------------------------------------------------


def test_follow_ups_nest_under_their_backup_in_the_activity(paused: Running) -> None:
    repository = paused.new_repository(index_mode="full")
    backup = paused.admin.start_backup(repository)
    run = paused.admin.wait_for_end(backup)["run_id"]
    query = {"repository_id": repository["id"]}

    (nested,) = get(paused.admin, "/api/activity/recent", **query)
    flat = get(paused.admin, "/api/activity/recent", collapse_runs=False, **query)

    assert nested["id"] == backup
    assert [one["type"] for one in nested["followups"]] == ["archives", "stats", "history"]
    assert all((one["trigger"], one["parent_id"]) == ("followup", backup) for one in nested["followups"])
    assert all(one["run_id"] == run for one in nested["followups"])
    assert sorted(one["type"] for one in flat) == ["archives", "backup", "history", "stats"]


def test_a_pause_visibly_holds_follow_ups_but_not_manually_requested_work(paused: Running) -> None:
    repository = paused.new_repository(index_mode="full")
    paused.admin.wait_for_end(paused.admin.start_backup(repository))
    held = index_work(paused.admin, repository, "pending")
    assert held[0]["queued_reason"] == "paused"

    queued = start(paused.admin, repository, "rebuild", **{"from": "stats"})

    assert paused.admin.wait_for_end(queued["operations"][0])["status"] == "completed"
    assert len(index_work(paused.admin, repository, "pending")) == 3


def test_resuming_lets_held_follow_ups_run(quiet: Running) -> None:
    quiet.admin.post("/api/operations/pause")
    repository = quiet.new_repository(index_mode="full")
    quiet.admin.wait_for_end(quiet.admin.start_backup(repository))
    url = f"/api/repositories/{repository['id']}/archives"
    assert get(quiet.admin, url)["sync_state"] == "never", "nobody reads the list while that is held"

    quiet.admin.post("/api/operations/resume")

    assert {one["status"] for one in wait_for_index(quiet.admin, repository)} == {"completed"}
    assert get(quiet.admin, url)["sync_state"] == "fresh"
    assert get(quiet.admin, url)["archives"][0]["history_state"] == "indexed"


def a_prune_while_follow_ups_wait(paused: Running) -> tuple[dict[str, Any], dict[str, Any]]:
    """A repository with two backups and a prune whose index work is still held; and the prune."""
    repository = paused.new_repository(index_mode="archives")
    for _ in range(2):
        paused.admin.wait_for_end(paused.admin.start_backup(repository))
    job = paused.admin.post(f"/api/repositories/{repository['id']}/prune", json={"keep_last": 1}).json()["job_id"]
    return repository, paused.admin.wait_for_end(job)


def test_a_prune_brings_the_index_in_line_even_if_the_work_of_the_backup_before_it_is_cancelled(quiet: Running) -> None:
    quiet.admin.post("/api/operations/pause")
    repository, prune = a_prune_while_follow_ups_wait(quiet)
    own = [followup["id"] for followup in prune["followups"]]
    assert [followup["kind"] for followup in prune["followups"]] == ["archives", "stats"]
    for waiting in index_work(quiet.admin, repository, "pending"):
        if waiting["id"] not in own:
            quiet.admin.post(f"/api/operations/{waiting['id']}/cancel")

    quiet.admin.post("/api/operations/resume")

    assert [quiet.admin.wait_for_end(followup)["status"] for followup in own] == ["completed", "completed"]
    assert quiet.admin.operation(own[0])["result"]["total"] == 1
    assert get(quiet.admin, f"/api/repositories/{repository['id']}/archives")["sync_state"] == "fresh"


def test_follow_ups_that_waited_together_read_the_repository_once(quiet: Running) -> None:
    quiet.admin.post("/api/operations/pause")
    quiet.admin.put(
        "/api/operations/limits", json={"max_running_index": 1}
    )  # two that start together would both read it
    repository, _ = a_prune_while_follow_ups_wait(quiet)
    before = len(quiet.engine_calls())

    quiet.admin.post("/api/operations/resume")

    work = wait_for_index(quiet.admin, repository)
    quiet.admin.put("/api/operations/limits", json={"max_running_index": 2})
    calls = [call for call in quiet.engine_calls()[before:] if repository["path"] in call]
    assert {one["status"] for one in work} == {"completed"}
    assert len([one for one in work if one["kind"] == "archives"]) == 3
    assert len([call for call in calls if " list " in f" {call} "]) == 1


def test_reconcile_queues_repositories_that_were_never_synced_and_only_once(paused: Running) -> None:
    repository = paused.new_repository(index_mode="full")

    first = paused.admin.post("/api/operations/reconcile").json()
    again = paused.admin.post("/api/operations/reconcile").json()

    queued = index_work(paused.admin, repository)
    assert [(one["kind"], one["trigger"], one["priority"]) for one in queued] == [
        ("archives", "reconcile", 20),
        ("stats", "reconcile", 20),
        ("history", "reconcile", 20),
    ]
    assert set(first) == {"repositories", "enqueued"}
    assert first["enqueued"] >= 3
    assert again["enqueued"] == 0
    assert first["repositories"] == len(get(paused.admin, "/api/repositories/")["repositories"])


def test_reconcile_skips_a_repository_whose_index_mode_is_off(paused: Running) -> None:
    repository = paused.new_repository(index_mode="off")

    paused.admin.post("/api/operations/reconcile")

    assert index_work(paused.admin, repository) == []


def test_only_an_admin_may_start_a_reconcile(quiet: Running) -> None:
    assert error_of(quiet.stranger.post("/api/operations/reconcile"))[0] == 403


def test_an_import_is_followed_by_stats_archives_and_history(world: World) -> None:
    run = [one for one in index_work(world.admin, world.repository) if one["trigger"] == "import"]

    assert [one["kind"] for one in run] == ["stats", "archives", "history"]
    assert len({one["run_id"] for one in run}) == 1


def test_the_history_run_reports_how_it_read_the_archives(world: World) -> None:
    runs = [one for one in index_work(world.admin, world.repository) if one["kind"] == "history"]
    run = min(runs, key=lambda one: int(one["id"]))  # the run of the import; other tests may have started more since
    way = "chunks" if world.running.process.database_url is None else "listing"

    assert run["result"]["routes"] == {way: 5}
    assert (run["result"]["indexed"], run["result"]["failed"]) == (5, 0)
    assert run["result"]["route_reason"]
    log = world.admin.log_lines(run["id"])
    assert sum(f"read by {way}" in line for line in log) == 5
    assert log[-1] == "5 archives indexed, 0 failed."


def test_a_resync_of_an_up_to_date_repository_changes_nothing(world: World) -> None:
    before = world.get("/archives")["archives"]
    queued = run_index(world.admin, world.repository)

    results = [world.admin.operation(operation)["result"] for operation in queued["operations"]]
    assert {name: results[0][name] for name in ("added", "removed", "total")} == {"added": 0, "removed": 0, "total": 5}
    assert results[2]["indexed"] == 0
    after = world.get("/archives")["archives"]
    moved = {"last_seen_at"}
    assert [{k: v for k, v in one.items() if k not in moved} for one in after] == [
        {k: v for k, v in one.items() if k not in moved} for one in before
    ]
