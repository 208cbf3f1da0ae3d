"""A repository of engine 2 is reported like any other."""

import base64
import filecmp
import io
import os
import tarfile
from pathlib import Path

from tests.contract.engine2.world import NOT_UTF8, World


def test_a_repository_shows_its_engine_version_and_has_a_constant_archive_name(world: World) -> None:
    found = world.get("")

    assert (found["engine_version"], found["encryption"]) == (2, "none")
    assert found["archive_name_template"] == "{repository}"
    assert found["archive_count"] == 2


def test_two_backups_create_two_archives_with_one_name_in_one_series(world: World) -> None:
    first, second = world.archives()

    assert first["name"] == second["name"] == world.repository["name"]
    assert first["series"] == second["series"]
    assert first["engine_id"] != second["engine_id"]
    assert [one["backup_operation_id"] for one in (first, second)] == [job["id"] for job in world.jobs]


def test_an_archive_shows_its_sizes_and_null_for_those_that_engine_2_does_not_report(world: World) -> None:
    for archive in world.archives():
        assert archive["original_size"] > 0
        assert archive["nfiles"] == 6
        assert (archive["compressed_size"], archive["deduplicated_size"]) == (None, None)
        assert archive["history_state"] == "indexed"


def test_the_second_backup_read_only_what_had_changed(world: World) -> None:
    """The engine keeps its cache of known files by the name of the series."""
    log = world.admin.log_lines(world.jobs[1]["id"])

    assert world.jobs[1]["result"]["stats"]["nfiles"] == 6, log


def test_both_live_routes_list_the_same_archives_as_the_index(world: World) -> None:
    plain = world.get("/archives/live")
    second = world.admin.get(f"/api/v2{world.url.removeprefix('/api')}/archives/live").json()

    assert plain == second
    assert {(one["id"], one["archive_id"]) for one in plain["archives"]} == {
        (one["engine_id"], one["id"]) for one in world.archives()
    }
    assert all("holdfast:" in one["comment"] for one in plain["archives"])


def test_the_changes_of_an_archive_match_the_changes_of_its_files(world: World) -> None:
    changed = world.get(f"/archives/{world.archives()[1]['id']}/changes")["changes"]
    told = {(entry["change"], entry["path"].removeprefix(world.at(""))) for entry in changed}

    assert {("added", "letters/june.txt"), ("removed", "letters/may.txt"), ("modified", "notes.txt")} <= told
    assert ("modified", "also-notes.txt") in told
    assert ("modified", "same-size.txt") in told, "same size and time, but another fingerprint"


def test_a_name_that_is_not_utf8_is_found_by_its_bytes(world: World) -> None:
    exact = base64.b64encode(os.fsencode(world.at("")) + NOT_UTF8).decode()
    found = world.get("/history", path_b64=exact)

    assert [entry["change"] for entry in found["entries"]] == ["added"]
    assert found["present_in_latest"] is True


def test_a_file_is_found_by_part_of_its_name(world: World) -> None:
    found = world.get("/search", q="may")["results"]

    assert [one["path"] for one in found] == [world.at("letters/may.txt")]
    assert found[0]["present_in_latest"] is False


def test_a_folder_lists_its_entries_in_the_archive(world: World) -> None:
    entries = world.get(f"/archives/{world.archives()[0]['id']}/browse", path=str(world.source))["entries"]

    assert {entry["name"] for entry in entries} >= {"letters", "link", "notes.txt", "also-notes.txt"}
    sizes = {entry["name"]: entry["size"] for entry in entries}
    assert (sizes["notes.txt"], sizes["also-notes.txt"]) == (4, 4)


def test_a_restore_reproduces_the_files_exactly(world: World, tmp_path: Path) -> None:
    body = {
        "repository_id": world.repository["id"],
        "archive_id": world.archives()[1]["id"],
        "paths": [str(world.source)],
        "destination": str(tmp_path / "restored"),
        "restore_layout": "contents_only",
    }
    answer = world.admin.post("/api/restore/start", json=body)
    assert answer.status_code == 200, answer.text
    ended = world.admin.wait_for_end(answer.json()["job_id"])

    assert ended["status"] == "completed", (ended, world.admin.log_lines(ended["id"]))
    compared = filecmp.dircmp(world.source, tmp_path / "restored")
    assert (compared.left_only, compared.right_only, compared.diff_files, compared.funny_files) == ([], [], [], [])
    assert os.readlink(tmp_path / "restored" / "link") == "notes.txt"
    assert (tmp_path / "restored" / "notes.txt").stat().st_nlink == 2
    assert os.fsencode(tmp_path / "restored") + b"/" + NOT_UTF8 in {
        os.fsencode(tmp_path / "restored") + b"/" + name for name in os.listdir(os.fsencode(tmp_path / "restored"))
    }


def test_a_name_refers_to_the_newest_archive_of_the_series(world: World) -> None:
    body = {
        "repository_id": world.repository["id"],
        "archive": world.repository["name"],
        "paths": [str(world.source / "notes.txt")],
        "destination": "/somewhere/else",
    }
    answer = world.admin.post("/api/restore/preview", json=body)

    assert answer.status_code == 200, answer.text
    assert answer.json()["bytes"] == len("one\ntwo\n")


def test_a_folder_is_downloaded_as_a_tar_file(world: World) -> None:
    first = world.archives()[0]["id"]
    answer = world.admin.get(f"{world.url}/archives/{first}/download", params={"path": str(world.source / "letters")})

    assert answer.status_code == 200, answer.text
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as archive:
        content = {member.name: archive.extractfile(member) for member in archive.getmembers() if member.isfile()}
        file = content["letters/may.txt"]
        assert file is not None
        assert file.read() == b"may\n"


def test_a_restore_check_proves_every_file(world: World) -> None:
    answer = world.admin.post(f"{world.url}/restore-check", json={"full_archive": True})
    ended = world.admin.wait_for_end(answer.json()["job_id"])

    assert ended["status"] == "completed", (ended, world.admin.log_lines(ended["id"]))
    assert ended["result"]["files_proven"] == ended["result"]["files_checked"] == 6


def test_overviews_show_null_for_sizes_that_are_not_reported(world: World) -> None:
    days = world.get("/archives/heatmap")["repository"]["days"]

    assert sum(day["count"] for day in days) == 2
    assert {day["deduplicated_size"] for day in days} == {None}
    assert all(day["original_size"] > 0 for day in days)
    assert world.get("/status")
