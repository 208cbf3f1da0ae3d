"""Every job kind, with every engine, on every target: over HTTP, checked with the engine itself."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.contract.archives.world import ARCHIVE
from tests.contract.fields import (
    BACKUP_STATUS,
    CANCEL,
    LOG_STREAM,
    PROGRESS_DETAILS,
    REPOSITORY,
    error_of,
    is_timestamp,
)
from tests.contract.maintenance.jobs import STATUS
from tests.real.targets.cells import PASSPHRASE, Cell
from tests.real.targets.table import CELLS, KINDS, NOT_THERE, TARGETS

PLAYED: set[str] = set()


def where_there_is(kind: str) -> pytest.MarkDecorator:
    """Every cell that supports the kind; for the others the table has a row, and that row has a test."""
    assert kind in KINDS
    PLAYED.add(kind)
    cells = [param(cell, kind) for cell in CELLS if (*cell, kind) not in NOT_THERE]
    return pytest.mark.parametrize("cell", cells, indirect=True)


def param(cell: tuple[str, str], kind: str, *more: str) -> Any:
    """One test of a cell; `make campaign` runs them."""
    assert kind in KINDS
    return pytest.param(cell, *more, id="-".join((*cell, *more)))


# --- creating archives -----------------------------------------------------------------------------------------------


@where_there_is("create")
def test_a_repository_is_created_on_the_target(cell: Cell) -> None:
    made = cell.get()

    assert set(made) >= REPOSITORY
    assert (made["path"], made["execution_target"]) == (str(cell.path), cell.target)
    assert (made["ssh_connection_id"], made["agent_machine_id"]) == (
        cell.place.get("ssh_connection_id"),
        cell.place.get("agent_machine_id"),
    )
    assert (made["engine_version"], made["encryption"]) == (int(cell.engine[0]), cell.encryption)
    assert cell.true_encryption() == cell.encryption
    again = cell.admin.post("/api/repositories/", json=cell.wanted(name="again"))
    assert error_of(again) == (409, "repository.path_taken")


@where_there_is("backup")
def test_a_backup_reports_its_sizes_and_its_log(cell: Cell) -> None:
    first, second = cell.two_backups
    status = cell.admin.get(f"/api/backup/status/{second['id']}").json()

    assert set(status) >= BACKUP_STATUS
    assert (status["repository"], status["status"], status["progress"]) == (str(cell.path), "completed", 100.0)
    assert is_timestamp(status["started_at"])
    assert is_timestamp(status["completed_at"])
    assert set(status["progress_details"]) == PROGRESS_DETAILS
    assert (status["progress_details"]["nfiles"], status["error_message"]) == (4, None)
    log = cell.admin.get(f"/api/backup/logs/{second['id']}/stream", params={"offset": 0}).json()
    assert set(log) == LOG_STREAM
    assert log["lines"][0]["content"].startswith(cell.first_words_of_a_log())
    assert (log["total_lines"], log["has_more"]) == (len(log["lines"]), False)
    assert is_timestamp(cell.get()["last_backup"])
    job = cell.admin.get(f"/api/managed-machines/agent-jobs/{second['id']}")
    assert (job.status_code == 200) == (cell.target == "agent"), job.text
    true = cell.true_archives()
    assert [true[one["result"]["archive"]["id"]] for one in (first, second)] == [
        first["archive_name"],
        second["archive_name"],
    ]


@where_there_is("archives")
def test_the_index_contains_both_archives_with_their_counts(cell: Cell) -> None:
    first, second = cell.two_archives()

    assert set(first) == set(second) == ARCHIVE
    assert (first["nfiles"], second["nfiles"]) == (3, 4)
    assert [one["engine_id"] for one in (first, second)] == [job["result"]["archive"]["id"] for job in cell.two_backups]
    assert first["original_size"] > 0
    assert first["history_state"] == second["history_state"] == "indexed"
    assert (first["compressed_size"] is None) == (cell.engine == "2")
    shown = cell.get(f"/archives/{second['id']}")
    assert (shown["predecessor_id"], shown["successor_id"]) == (first["id"], None)
    listed = cell.get("/archives")
    assert listed["sync_state"] == "fresh"
    assert cell.get()["archive_count"] == len(listed["archives"])


# --- reading ---------------------------------------------------------------------------------------------------------


@where_there_is("live")
def test_the_live_lists_match_the_engine(cell: Cell) -> None:
    cell.two_archives()
    found = ask_live(cell).json()

    assert found["source"] == "engine"
    assert {one["id"]: one["name"] for one in found["archives"]} == cell.true_archives()
    old = cell.admin.get("/api/archives/list", params={"repository": str(cell.path)})
    assert (old.headers["Deprecation"], old.json()["archives"]) == ("true", found["archives"])


@where_there_is("browse")
def test_a_folder_of_an_archive_shows_its_entries(cell: Cell) -> None:
    found = ask_browse(cell).json()

    assert found["source"] == "index"
    shown = {one["name"]: (one["type"], one["mode"], one["link_target"]) for one in found["entries"]}
    assert shown == {
        "letters": ("d", "drwxr-xr-x", None),
        "link": ("l", "lrwxrwxrwx", "notes.txt"),
        "notes.txt": ("-", "-rw-r--r--", None),
        "run.sh": ("-", "-rwxr-x---", None),
    }


@where_there_is("changes")
def test_the_changes_of_an_archive_match_its_changed_files(cell: Cell) -> None:
    found = ask_changes(cell).json()

    first, second = cell.two_archives()
    assert (found["archive_id"], found["compare_to_id"]) == (second["id"], first["id"])
    assert (found["history_state"], found["incomplete"], found["unindexed_archive_ids"]) == ("indexed", False, [])
    files = {one["path"]: (one["change"], one["size_before"], one["size_after"]) for one in found["changes"]}
    assert files[cell.archived("notes.txt")] == ("modified", 4, 8)
    assert files[cell.archived("letters/june.txt")] == ("added", None, 5)
    assert not any(path.endswith(("may.txt", "run.sh", "link")) for path in files)


@where_there_is("search")
def test_a_file_is_found_by_part_of_its_name_and_its_history_is_shown(cell: Cell) -> None:
    found = ask_search(cell).json()

    first, second = cell.two_archives()
    (hit,) = found["results"]
    assert (hit["path"], hit["size"], hit["first_seen"]) == (cell.archived("letters/june.txt"), 5, second["id"])
    assert found["coverage"]["unindexed_archive_ids"] == []
    history = cell.get("/history", path=cell.archived("notes.txt"))
    assert {entry["archive_id"] for entry in history["entries"]} >= {first["id"], second["id"]}
    assert history["present_in_latest"] is True


@where_there_is("key")
def test_the_exported_key_equals_the_one_exported_by_the_engine(cell: Cell) -> None:
    answer = ask_key(cell)

    assert answer.status_code == 200, answer.text
    assert answer.json() == {"repository_id": cell.repository["id"], "key": cell.ask("key", "export")}
    assert answer.json()["key"].startswith("BORG_KEY ")
    assert PASSPHRASE not in answer.text


# --- verifying -------------------------------------------------------------------------------------------------------


@where_there_is("check")
def test_a_check_finds_nothing_wrong(cell: Cell) -> None:
    cell.two_archives()
    ended = cell.ended(cell.admin.post(f"{cell.url}/check", json={}), "check")

    shown = cell.shown("check", ended["id"])
    assert (shown["result"]["problems"], shown["result"]["complete"]) == ([], True)
    assert is_timestamp(cell.get()["last_check"])


@where_there_is("restore_check")
def test_a_restore_check_proves_every_file(cell: Cell) -> None:
    ended = cell.ended(ask_restore_check(cell), "restore_check")

    result = cell.shown("restore-check", ended["id"])["result"]
    assert (result["mode"], result["files_proven"], result["problems"]) == ("full", 4, [])
    assert is_timestamp(cell.get()["last_restore_check"])


@where_there_is("restore")
def test_a_restore_reproduces_content_modes_times_and_links_on_the_machine(cell: Cell) -> None:
    first, _ = cell.two_archives()
    target, layout = cell.folder / "restored", "contents_only" if cell.engine == "2" else "preserve_path"
    body = {
        "repository_id": cell.repository["id"],
        "archive_id": first["id"],
        "paths": [str(cell.source)],
        "destination": str(target),
        "destination_type": cell.target,
        "restore_layout": layout,
    }
    ended = cell.ended(cell.admin.post("/api/restore/start", json=body), "restore")

    status = cell.admin.get(f"/api/restore/status/{ended['id']}").json()
    assert (status["status"], status["progress"], status["destination"]) == ("completed", 100.0, str(target))
    assert status["progress_details"]["estimated_time_remaining"] == 0
    assert ended["id"] in [job["id"] for job in cell.admin.get("/api/restore/jobs").json()["jobs"]]
    restored = target if layout == "contents_only" else target / cell.archived("")
    found = sorted(str(path.relative_to(restored)) for path in restored.rglob("*"))
    assert found == ["letters", "letters/may.txt", "link", "notes.txt", "run.sh"]
    assert (restored / "notes.txt").read_text() == "one\n", "the older of the two"
    assert (restored / "link").readlink() == (cell.source / "link").readlink()
    for name in ("letters/may.txt", "run.sh"):
        back, gone = (restored / name).stat(), (cell.source / name).stat()
        assert (back.st_mode, back.st_mtime_ns, back.st_size) == (gone.st_mode, gone.st_mtime_ns, gone.st_size)
        assert (restored / name).read_bytes() == (cell.source / name).read_bytes()


@where_there_is("prune_dry_run")
def test_the_dry_run_of_a_prune_lists_archives_and_removes_nothing(cell: Cell) -> None:
    cell.two_archives()
    archives, before = cell.archives(), cell.traces()
    answer = ask_prune_dry_run(cell)

    assert answer.status_code == 200, answer.text
    assert set(answer.json()) == {"dry_run", "prune_result"}
    plan = answer.json()["prune_result"]
    assert (plan["kept_count"], plan["pruned_count"]) == (1, len(archives) - 1)
    assert (len(plan["keep"]), plan["keep"][0]["archive"]) == (1, archives[-1]["name"])
    assert cell.traces() == before
    assert set(cell.true_archives()) == {one["engine_id"] for one in archives}


# --- backups that do not simply succeed ------------------------------------------------------------------------------


@where_there_is("missing_source")
def test_a_backup_without_existing_sources_fails_and_creates_no_archive(cell: Cell) -> None:
    cell.two_archives()
    ended = cell.back_up("failed", source_paths=[str(cell.folder / "not there")])

    assert (ended["error_key"], (ended["result"] or {}).get("archive")) == ("engine.source_missing", None)
    assert ended["error_message"].endswith(".")
    status = cell.admin.get(f"/api/backup/status/{ended['id']}").json()
    assert (status["status"], status["error_message"]) == ("failed", ended["error_message"])
    assert set(cell.true_archives()) == {one["engine_id"] for one in cell.archives()}


@where_there_is("warning")
def test_a_backup_warns_about_one_missing_source_among_others(cell: Cell) -> None:
    missing = cell.folder / "not there"
    ended = cell.back_up("completed_with_warnings", source_paths=[str(cell.source), str(missing)])

    assert any(str(missing) in warning["message"] for warning in ended["warnings"])
    assert ended["result"]["warning_count"] >= 1
    cell.wait_until_idle()
    assert ended["result"]["archive"]["id"] in {one["engine_id"] for one in cell.archives()}


@where_there_is("cancel")
def test_a_cancelled_running_backup_leaves_no_archive(cell: Cell) -> None:
    cell.two_archives()
    gate = cell.gate()
    job = cell.admin.start_backup(str(cell.path), source_paths=[str(cell.source), str(gate.path)])
    gate.wait_until_reached()
    answer = cell.admin.post(f"/api/backup/cancel/{job}")
    ended = cell.end_of(job)
    gate.forget()

    assert (answer.status_code, set(answer.json())) == (200, CANCEL)
    assert answer.json()["cancel_requested"] is True
    assert (ended["kind"], ended["status"]) == ("backup", "cancelled")
    assert cell.admin.get(f"/api/backup/status/{job}").json()["status"] == "cancelled"
    assert error_of(cell.admin.post(f"/api/backup/cancel/{job}")) == (409, "operations.already_finished")
    assert set(cell.true_archives()) == {one["engine_id"] for one in cell.archives()}


@where_there_is("break_lock")
def test_a_lock_left_by_another_machine_is_broken(cell: Cell) -> None:
    cell.two_archives()
    cell.leave_lock()
    assert cell.locks() != []
    answer = cell.admin.post(f"{cell.url}/break-lock")

    assert answer.status_code == 200, answer.text
    assert answer.json()["repository_id"] == cell.repository["id"]
    if cell.target == "agent":
        ended = cell.end_of(answer.json()["operation_id"])
        assert (ended["kind"], ended["status"]) == ("break_lock", "completed")
    assert cell.locks() == []


# --- what is not supported -------------------------------------------------------------------------------------------


def ask_live(cell: Cell) -> Any:
    version = "/v2" if cell.engine == "2" else ""
    return cell.admin.get(f"/api{version}/repositories/{cell.repository['id']}/archives/live")


def ask_browse(cell: Cell) -> Any:
    first, _ = cell.two_archives()
    return cell.admin.get(f"{cell.url}/archives/{first['id']}/browse", params={"path": cell.archived("")})


def ask_changes(cell: Cell) -> Any:
    _, second = cell.two_archives()
    return cell.admin.get(f"{cell.url}/archives/{second['id']}/changes")


def ask_search(cell: Cell) -> Any:
    cell.two_archives()
    return cell.admin.get(f"{cell.url}/search", params={"q": "june"})


def ask_key(cell: Cell) -> Any:
    return cell.admin.get(f"{cell.url}/key")


def ask_restore_check(cell: Cell) -> Any:
    _, second = cell.two_archives()
    body = {"full_archive": True, "archive_id": second["id"]}
    return cell.admin.post(f"{cell.url}/restore-check", json=body)


def ask_prune_dry_run(cell: Cell) -> Any:
    return cell.admin.post(f"{cell.url}/prune", json={"keep_last": 1, "dry_run": True})


def ask_undelete(cell: Cell, archive: str = "0" * 64) -> Any:
    return cell.admin.post(f"{cell.url}/deleted-archives/{archive}/undelete")


def ask_wipe(cell: Cell) -> Any:
    return cell.admin.post(f"{cell.url}/wipe-preview", json={})


ASKING: dict[str, Callable[[Cell], Any]] = {"undelete": ask_undelete}


@pytest.mark.parametrize(
    ("cell", "kind"),
    [param((engine, target), "archives", kind) for engine, target, kind in NOT_THERE],
    indirect=["cell"],
)
def test_an_unsupported_kind_is_refused_and_changes_nothing(cell: Cell, kind: str) -> None:
    row = NOT_THERE[cell.engine, cell.target, kind]
    cell.two_archives()
    before = cell.traces()
    answer = ASKING[kind](cell)

    assert error_of(answer) == (row.code, row.key)
    assert answer.json()["detail"]["message"] == row.sentence
    assert cell.traces() == before


# --- removing --------------------------------------------------------------------------------------------------------


@where_there_is("prune")
def test_a_prune_removes_the_archives_that_the_policy_does_not_keep(cell: Cell) -> None:
    oldest, *kept = cell.at_least(2)
    cell.forget_backups()
    answer = cell.admin.post(f"{cell.url}/prune", json={"keep_last": len(kept)})
    ended = cell.ended(answer, "prune")
    cell.wait_until_idle()

    result = cell.shown("prune", ended["id"])["result"]
    assert [one["id"] for one in result["prune"]] == [oldest["engine_id"]]
    assert (result["kept_count"], result["pruned_count"]) == (len(kept), 1)
    assert result.get("soft_deleted", False) == (cell.engine == "2")
    assert [one["id"] for one in cell.archives()] == [one["id"] for one in kept]
    assert set(cell.true_archives()) == {one["engine_id"] for one in kept}
    assert is_timestamp(cell.get()["last_prune"])


@pytest.mark.parametrize("cell", [param(("2", target), "prune") for target in TARGETS], indirect=True)
def test_a_prune_rule_unsupported_by_engine_2_is_refused(cell: Cell) -> None:
    cell.two_archives()
    answer = cell.admin.post(f"{cell.url}/prune", json={"keep_within": "7d"})

    assert error_of(answer) == (422, "engine.unsupported")


@where_there_is("compact")
def test_a_compaction_reports_the_freed_bytes(cell: Cell) -> None:
    ended = cell.ended(cell.admin.post(f"{cell.url}/compact", json={}), "compact")

    assert "freed_bytes" in cell.shown("compact", ended["id"])["result"]
    assert is_timestamp(cell.get()["last_compact"])


@where_there_is("delete")
def test_an_archive_is_deleted_by_its_id_and_the_others_remain(cell: Cell) -> None:
    *kept, newest = cell.at_least(1)
    cell.forget_backups()
    ended = cell.ended(cell.admin.delete(f"/api/archives/{newest['id']}"), "delete_archive")
    cell.wait_until_idle()

    shown = cell.admin.get(f"/api/archives/delete-jobs/{ended['id']}").json()
    assert set(shown) >= STATUS
    assert {"name": newest["name"], "id": newest["engine_id"]}.items() <= shown["result"]["archive"].items()
    assert shown["result"].get("soft_deleted", False) == (cell.engine == "2")
    assert [one["id"] for one in cell.archives()] == [one["id"] for one in kept]
    assert set(cell.true_archives()) == {one["engine_id"] for one in kept}


@where_there_is("undelete")
def test_a_deleted_archive_is_undeleted(cell: Cell) -> None:
    gone = cell.a_deleted_archive()
    ended = cell.ended(ask_undelete(cell, gone), "undelete_archive")
    cell.wait_until_idle()

    assert ended["result"]["archive"]["id"] == gone
    assert gone in cell.true_archives()
    assert gone in {one["engine_id"] for one in cell.archives()}


@where_there_is("wipe")
def test_a_wipe_removes_every_archive_shown_in_its_preview(cell: Cell) -> None:
    there = cell.at_least(1)
    cell.forget_backups()
    seen = ask_wipe(cell).json()
    assert (seen["status"], seen["phase"], seen["blocked"]) == ("previewed", "preview", False)
    assert (seen["archive_count"], seen["archive_fingerprint"][:7]) == (len(there), "sha256:")
    body = {
        "preview_id": seen["id"],
        "preview_fingerprint": seen["archive_fingerprint"],
        "confirmation_phrase": f"WIPE {cell.repository['name']}",
        "understood": True,
    }
    refused = cell.admin.post(f"{cell.url}/wipe", json={**body, "confirmation_phrase": "WIPE"})
    assert error_of(refused) == (422, "wipe.confirmation_mismatch")
    answer = cell.admin.post(f"{cell.url}/wipe", json=body)
    assert answer.status_code == 200, answer.text
    assert (answer.json()["status"], answer.json()["phase"]) == ("pending", "queued")
    cell.end_of(answer.json()["id"])

    job = cell.get(f"/wipe-jobs/{answer.json()['id']}")
    assert (job["status"], job["phase"]) == ("completed", "completed")
    assert (job["deleted_count"], job["remaining_count"]) == (len(there), 0)
    cell.wait_until_idle()
    assert (cell.true_archives(), cell.archives()) == ({}, [])
