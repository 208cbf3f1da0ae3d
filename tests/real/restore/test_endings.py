"""How restores end: conflicts, missing things, cancellation, damage, a full disk."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.restore.archives import Workshop, below, private_folders
from tests.support.archive_sets import OwnEngine
from tests.support.trees import look_at


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    (folder / "sub").mkdir(parents=True)
    (folder / "a").write_text("archived a")
    (folder / "b").write_text("archived b")
    (folder / "sub" / "c").write_text("archived c")
    return folder


def test_with_overwrite_fail_a_single_conflict_prevents_all_writes(
    newest: Workshop, tmp_path: Path, source: Path
) -> None:
    destination = tmp_path / "destination"
    below(destination, source).mkdir(parents=True)
    (below(destination, source) / "b").write_text("present")
    before = look_at(destination)
    archive = newest.back_up(source)

    ended = newest.restore(archive, destination, overwrite="fail")

    assert ended["status"] == "failed"
    assert ended["error_key"] == "restore.conflicts"
    assert ended["result"]["conflicts"] == [{"path": f"{str(source)[1:]}/b", "reason": "a file already exists there"}]
    assert ended["result"]["files_restored"] == 0
    assert look_at(destination) == before


def test_a_path_missing_in_the_archive_fails_the_restore_before_anything_is_written(
    newest: Workshop, tmp_path: Path, source: Path
) -> None:
    destination = tmp_path / "destination"
    paths = [str(source / "a"), str(source / "nowhere")]

    ended = newest.restore(newest.back_up(source), destination, paths=paths)

    assert ended["status"] == "failed"
    assert ended["error_key"] == "archives.path_not_found"
    assert str(source / "nowhere")[1:] in ended["error_message"]
    assert not destination.exists()


@pytest.mark.campaign
def test_a_restore_of_a_deleted_archive_fails_and_reports_why(newest: Workshop, tmp_path: Path, source: Path) -> None:
    archive = newest.back_up(source)
    OwnEngine.of(newest.running).run("delete", f"{archive.repository['path']}::{archive.name}")

    ended = newest.restore(archive, tmp_path / "destination")

    assert ended["status"] == "failed"
    assert "is no longer in the repository" in ended["error_message"]
    assert ended["error_message"].endswith("Nothing was restored.")


@pytest.mark.campaign
def test_folders_with_colliding_names_are_not_merged(newest: Workshop, tmp_path: Path, source: Path) -> None:
    (source / "sub" / "a").write_text("another a")
    paths = [str(source / "sub"), str(source / "a")]

    ended = newest.restore(newest.back_up(source), tmp_path / "out", paths=paths, restore_layout="contents_only")

    assert ended["error_key"] == "restore.names_collide"
    assert not (tmp_path / "out").exists()


def test_a_dry_run_writes_nothing_and_reports_what_would_be_done(
    newest: Workshop, tmp_path: Path, source: Path
) -> None:
    destination = tmp_path / "destination"
    below(destination, source).mkdir(parents=True)
    (below(destination, source) / "a").write_text("present")
    before = look_at(destination)

    ended = newest.restore(newest.back_up(source), destination, dry_run=True)

    assert ended["status"] == "completed", ended
    assert ended["result"] == {
        "dry_run": True,
        "files": 3,
        "bytes": 30,
        "files_passed_over": 0,
        "passed_over": [],
        "special_files": 0,
        "conflicts": [{"path": f"{str(source)[1:]}/a", "reason": "a file already exists there"}],
        "conflict_count": 1,
    }
    assert look_at(destination) == before


@pytest.mark.campaign
def test_a_restore_waits_for_a_backup_and_runs_beside_another_restore(
    newest: Workshop, tmp_path: Path, source: Path
) -> None:
    repository = newest.running.new_repository(source_paths=[source])
    archive = newest.back_up(source, repository=repository)

    with newest.running.held_backup(repository) as (backup, _gate):
        jobs = [newest.start(archive, tmp_path / f"out-{number}") for number in range(2)]
        waiting = [newest.status(job_id) for job_id in jobs]
        assert {(job["status"], job["queued_reason"], job["queued_behind_id"]) for job in waiting} == {
            ("pending", "repository_busy", backup)
        }
    for job_id in jobs:
        assert newest.running.admin.wait_for_end(job_id)["status"] == "completed"


@pytest.mark.campaign
def test_a_waiting_restore_is_cancelled_immediately(newest: Workshop, tmp_path: Path, source: Path) -> None:
    repository = newest.running.new_repository(source_paths=[source])
    archive = newest.back_up(source, repository=repository)

    with newest.running.held_backup(repository):
        job_id = newest.start(archive, tmp_path / "destination")
        answer = newest.running.admin.post(f"/api/restore/cancel/{job_id}")

    assert answer.json()["status"] == "cancelled"
    assert newest.running.admin.post(f"/api/restore/cancel/{job_id}").status_code == 409
    assert not (tmp_path / "destination").exists()


def test_a_damaged_repository_restores_nothing_and_reports_the_damage(
    workshop: Workshop, tmp_path: Path, source: Path
) -> None:
    (source / "large").write_bytes(os.urandom(3 << 20))
    archive = workshop.back_up(source)
    damage(Path(archive.repository["path"]))

    ended = workshop.restore(archive, tmp_path / "destination")

    assert ended["status"] == "failed"
    assert ended["error_key"] == "engine.damaged"
    assert ended["result"]["files_restored"] == 0
    assert ended["error_message"].endswith("Nothing was restored.")
    assert list((tmp_path / "destination").iterdir()) == []


def damage(repository: Path) -> None:
    """Flip bytes in the middle of the largest segment, which contains the largest file."""
    segment = max(repository.glob("data/*/*"), key=lambda path: path.stat().st_size)
    middle = segment.stat().st_size // 2
    with segment.open("r+b") as file:
        file.seek(middle)
        piece = file.read(64)
        file.seek(middle)
        file.write(bytes(byte ^ 0xFF for byte in piece))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two mebibytes."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount")
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", place], check=False, capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip("this machine does not let tests mount")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


@pytest.fixture
def large(tmp_path: Path) -> Path:
    file = tmp_path / "large"
    file.write_bytes(os.urandom(6 << 20))
    return file


def test_on_a_full_disk_files_that_fit_are_restored_and_the_others_are_named(
    workshop: Workshop, source: Path, large: Path, small_disk: Path
) -> None:
    ended = workshop.restore(workshop.back_up(source, large), small_disk / "destination")

    assert ended["status"] == "failed"
    assert ended["error_key"] == "restore.incomplete"
    assert [item["path"] for item in ended["result"]["failed"]] == [str(large)[1:]]
    assert ended["result"]["files_restored"] == 3
    restored = below(small_disk / "destination", source)
    assert {path.name for path in restored.iterdir()} == {"a", "b", "sub"}
    assert (restored / "a").read_text() == "archived a"
    assert private_folders(small_disk) == []


def test_nothing_is_restored_if_a_full_disk_stops_the_engine(
    workshop: Workshop, source: Path, large: Path, small_disk: Path
) -> None:
    """The engine aborts when it cannot create a folder; everything it has extracted by then is removed."""
    ended = workshop.restore(workshop.back_up(large, source), small_disk / "destination")

    assert (ended["status"], ended["error_key"]) == ("failed", "engine.disk_full")
    assert ended["result"]["files_restored"] == 0
    assert list((small_disk / "destination").iterdir()) == []


def test_files_that_belong_on_another_file_system_are_named(
    newest: Workshop, tmp_path: Path, source: Path, small_disk: Path
) -> None:
    archive = newest.back_up(source)
    destination = tmp_path / "destination"
    place = below(destination, source) / "sub"
    place.mkdir(parents=True)
    subprocess.run(["mount", "--bind", small_disk, place], check=True)
    try:
        ended = newest.restore(archive, destination)
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)

    assert ended["status"] == "failed"
    assert [item["path"] for item in ended["result"]["failed"]] == [f"{str(source)[1:]}/sub/c"]
    assert "a different file system" in ended["error_message"]
    assert (below(destination, source) / "a").exists()


def test_leftovers_of_a_killed_machine_are_removed_by_the_next_restore(
    newest: Workshop, tmp_path: Path, source: Path
) -> None:
    archive, destination = newest.back_up(source), tmp_path / "destination"
    newest.restore(archive, destination)
    ended = newest.restore(archive, destination)
    database = newest.running.folder / "data" / "holdfast.db"
    uuid = subprocess.run(
        ["python3", "-c", SQL, database, str(ended["id"])], capture_output=True, text=True, check=True
    ).stdout.strip()
    unknown = ".holdfast-restore-" + "0" * 32
    for name in (f".holdfast-restore-{uuid}", unknown):
        (below(destination, source.parent) / name / "tree").mkdir(parents=True)

    newest.restore(archive, destination)

    assert private_folders(destination) == [unknown]


SQL = (
    "import sqlite3, sys; print(*sqlite3.connect(sys.argv[1]).execute('SELECT uuid FROM operations WHERE id = ?', "
    "sys.argv[2:]).fetchone())"
)
