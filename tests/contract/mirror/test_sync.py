"""Syncs: a repository that does not look intact never replaces its mirror without an override."""

import os
import shutil
from pathlib import Path

import pytest

from tests.contract.fields import error_of
from tests.contract.mirror.mirrored import Mirrored, local_remote, mirrored, shared
from tests.support.rclone import are_equal
from tests.support.running import Running

SUSPICIOUS = "mirror.source_suspicious"


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def segments(made: Mirrored) -> list[Path]:
    """Segments with data, the largest first."""
    found = (Path(made.repository["path"]) / "data" / "0").iterdir()
    return sorted((path for path in found if path.stat().st_size > 17), key=lambda path: -path.stat().st_size)


def remove_config(made: Mirrored) -> str:
    (Path(made.repository["path"]) / "config").unlink()
    return "config_missing"


def remove_readme(made: Mirrored) -> str:
    (Path(made.repository["path"]) / "README").unlink()
    return "readme_missing"


def remove_segment(made: Mirrored) -> str:
    segments(made)[0].unlink()
    return "segments_missing"


def remove_data(made: Mirrored) -> str:
    shutil.rmtree(Path(made.repository["path"]) / "data")
    return "segments_missing"


def remove_repository(made: Mirrored) -> str:
    shutil.rmtree(made.repository["path"])
    return "missing"


def overwrite_segment(made: Mirrored) -> str:
    found = segments(made)[0]
    found.write_bytes(os.urandom(found.stat().st_size))
    return "changed_in_place"


def cut_segment(made: Mirrored) -> str:
    found = segments(made)[0]
    os.truncate(found, found.stat().st_size // 2)
    return "changed_in_place"


@pytest.mark.parametrize(
    "damage",
    [remove_config, remove_readme, remove_segment, remove_data, remove_repository, overwrite_segment, cut_segment],
)
def test_a_damaged_repository_does_not_replace_its_mirror(running: Running, damage) -> None:  # type: ignore[no-untyped-def]
    made = shared(running)
    good = files(made.folder)

    with made.spoiled():
        reason = damage(made)
        ended = made.sync()

    assert (ended["status"], ended["error_key"]) == ("failed", SUSPICIOUS)
    assert reason in ended["result"]["reasons"]
    assert "override_sanity" in ended["error_message"]
    assert files(made.folder) == good
    assert made.cell()["status"] == "failed"


def test_a_repository_that_shrank_beyond_the_threshold_is_mirrored_only_with_the_override(running: Running) -> None:
    made = mirrored(running)
    source = Path(made.repository["source_paths"][0])
    (source / "large").write_bytes(os.urandom(400_000))
    admin = made.admin
    large = admin.wait_for_end(admin.start_backup(made.repository))
    assert made.sync()["status"] == "completed"
    good = files(made.folder)
    deleted = admin.delete(f"/api/archives/{large['archive_name']}", params={"repository": made.repository["path"]})
    assert admin.wait_for_end(deleted.json()["job_id"])["status"] == "completed"
    compacted = admin.post(f"/api/repositories/{made.repository['id']}/compact", json={"threshold": 1})
    assert admin.wait_for_end(compacted.json()["job_id"])["status"] == "completed"

    refused = made.sync()
    assert (refused["error_key"], refused["result"]["reasons"]) == (SUSPICIOUS, ["shrunk"])
    assert files(made.folder) == good

    assert made.sync(override_sanity=True)["status"] == "completed"
    assert are_equal(Path(made.repository["path"]), made.folder)
    assert made.sync()["status"] == "completed", "the smaller size is the one to compare with from now on"


def test_a_repository_reset_to_an_older_copy_is_suspicious(running: Running) -> None:
    made = mirrored(running)

    with made.spoiled():  # puts the older copy back
        assert made.admin.wait_for_end(made.admin.start_backup(made.repository))["status"] == "completed"
        assert made.sync()["status"] == "completed"
    ended = made.sync()

    assert (ended["error_key"], ended["result"]["reasons"]) == (SUSPICIOUS, ["set_back"])


def test_another_repository_in_the_same_folder_is_not_mirrored(running: Running) -> None:
    made = shared(running)

    with made.spoiled():
        shutil.rmtree(made.repository["path"])
        shutil.copytree(running.scratch["path"], made.repository["path"])
        ended = made.sync()

    assert (ended["status"], ended["error_key"]) == ("failed", "repository.replaced")


def test_other_files_at_the_destination_are_never_deleted_even_with_the_override(running: Running) -> None:
    repository, remote_id = running.new_repository(), local_remote(running)
    folder = running.new_folder("photographs")
    (folder / "holiday.jpg").write_text("the only copy")
    url = f"/api/repositories/{repository['id']}/mirror"

    made = running.admin.put(url, json={"remote_id": remote_id, "path": str(folder), "mode": "manual"}).json()
    initial = running.admin.wait_for_end(made["sync_operation_id"])
    forced = running.admin.post(f"{url}/sync", json={"override_sanity": True}).json()["job_id"]

    ends = [initial, running.admin.wait_for_end(forced)]
    assert [end["error_key"] for end in ends] == ["mirror.destination_taken"] * 2
    assert files(folder) == {"holiday.jpg": b"the only copy"}


def test_damage_to_a_mirror_is_reported_and_missing_files_are_restored(running: Running) -> None:
    made = shared(running)
    held = max((made.folder / "data" / "0").iterdir(), key=lambda path: path.stat().st_size)
    when = held.stat()
    held.write_bytes(os.urandom(when.st_size))
    os.utime(held, ns=(when.st_atime_ns, when.st_mtime_ns))  # like rot on a disk

    told = made.sync()
    held.unlink()
    mended = made.sync()

    assert (told["status"], told["error_key"]) == ("failed", "mirror.verification_failed")
    assert any(held.name in problem for problem in told["result"]["problems"])
    assert mended["status"] == "completed"
    assert are_equal(Path(made.repository["path"]), made.folder)


def test_syncs_of_one_repository_run_one_after_the_other(running: Running) -> None:
    made = shared(running)

    jobs = [made.admin.post(f"{made.url}/sync").json()["job_id"] for _ in range(2)]
    ended = [made.admin.wait_for_end(job) for job in jobs]

    assert [end["status"] for end in ended] == ["completed"] * 2
    logs = ["\n".join(made.admin.log_lines(job)) for job in jobs]
    assert all(log.count("rclone check") == 1 for log in logs)
    assert ended[0]["completed_at"] < ended[1]["completed_at"]


def test_a_hydrate_creates_a_repository_that_can_be_imported(running: Running) -> None:
    made = shared(running)
    destination = running.new_path("hydrated")

    ended = made.hydrate(destination)

    assert (ended["status"], ended["type"]) == ("completed", "rclone_hydrate")
    assert are_equal(made.folder, destination, but="nonce")
    body = {"name": destination.name, "path": str(destination), "encryption": "none", "index_mode": "off"}
    imported = running.admin.post("/api/repositories/import", json=body)
    assert imported.status_code == 201, imported.text
    assert made.admin.get(f"/api/repositories/{made.repository['id']}").json()["latest_sync_job"]["operation"] == (
        "hydrate"
    )


def test_a_hydrate_is_refused_for_an_unusable_destination_or_without_confirmation(running: Running) -> None:
    made = shared(running)
    full = running.new_source()
    url = f"{made.url}/hydrate"

    refused = {
        "full": made.admin.post(url, json={"destination": str(full), "confirm": True}),
        "relative": made.admin.post(url, json={"destination": "somewhere", "confirm": True}),
        "registered": made.admin.post(url, json={"destination": made.repository["path"], "confirm": True}),
        "in a repository": made.admin.post(
            url, json={"destination": f"{made.repository['path']}/new/place", "confirm": True}
        ),
        "in the data folder": made.admin.post(
            url, json={"destination": str(running.process.data_dir / "new"), "confirm": True}
        ),
    }

    assert {error_of(answer) for answer in refused.values()} == {(422, "mirror.bad_destination")}
    unconfirmed = made.admin.post(url, json={"destination": str(running.new_path("hydrated"))})
    assert error_of(unconfirmed) == (422, "mirror.not_confirmed")
    assert sorted(path.name for path in full.iterdir()) == ["file-0", "file-1", "file-2"]


def test_a_hydrate_of_a_missing_mirror_fails_with_its_own_key(running: Running) -> None:
    made = mirrored(running)
    shutil.rmtree(made.folder)

    ended = made.hydrate(running.new_path("hydrated"))

    assert (ended["status"], ended["error_key"]) == ("failed", "mirror.nothing_mirrored")
