"""Repositories damaged on purpose: check and restore check report the damage, and claim nothing unproven."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.contract.maintenance.jobs import Made
from tests.support.archive_sets import OwnEngine
from tests.support.engines import ENGINES
from tests.support.running import PASSPHRASE, Services

LARGE = 300_000


def flip_a_byte(segment: Path) -> None:
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 0xFF
    segment.write_bytes(content)


def remove(segment: Path) -> None:
    segment.unlink()


@pytest.fixture(params=sorted(ENGINES))
def backed_up(request: pytest.FixtureRequest, services: Services) -> Made:
    """An encrypted repository with one archive of small files and a large one, which fills most of its segment."""
    running = services.get(engine=request.param)
    repository = running.new_repository(encryption="repokey-blake2", index_mode="off")
    source = Path(repository["source_paths"][0])
    (source / "large").write_bytes(os.urandom(LARGE))
    engine = OwnEngine.of(running, PASSPHRASE)
    engine.run("create", f"{repository['path']}::archive", str(source))
    return Made(running, repository, engine)


def largest_segment(made: Made) -> Path:
    segments = [file for file in Path(made.repository["path"], "data").rglob("*") if file.is_file()]
    return max(segments, key=lambda segment: segment.stat().st_size)


def files_of(made: Made) -> list[Path]:
    return sorted(Path(made.repository["source_paths"][0]).iterdir())


def assert_not_proven(job: dict[str, Any]) -> None:
    assert (job["status"], job["error_key"]) == ("failed", "engine.damaged"), job


def test_a_flipped_byte_is_found_by_a_restore_check_and_by_a_check(backed_up: Made) -> None:
    flip_a_byte(largest_segment(backed_up))

    restored = backed_up.run("restore-check", full_archive=True)
    checked = backed_up.run("check")

    assert_not_proven(restored)
    result = restored["result"]
    assert result["files_proven"] < result["files_checked"] == len(files_of(backed_up))
    assert result["bytes_proven"] < LARGE
    assert result["problems"]
    assert_not_proven(checked)
    assert checked["result"]["problem_count"] > 0
    assert "integrity" in checked["result"]["problems"][0]
    assert (backed_up.read()["last_check"], backed_up.read()["last_restore_check"]) == (None, None)


def test_undamaged_files_beside_a_damaged_one_are_proven(backed_up: Made) -> None:
    flip_a_byte(largest_segment(backed_up))
    small = [file for file in files_of(backed_up) if file.name != "large"]

    job = backed_up.run("restore-check", paths=[str(file) for file in small])

    assert job["status"] == "completed"
    assert job["result"]["files_proven"] == len(small)
    assert job["result"]["bytes_proven"] == sum(file.stat().st_size for file in small)


def test_a_missing_segment_is_found_by_a_restore_check_and_by_a_check(backed_up: Made) -> None:
    remove(largest_segment(backed_up))

    restored = backed_up.run("restore-check", sample=100)
    checked = backed_up.run("check")

    assert_not_proven(restored)
    assert (restored["result"]["files_proven"], restored["result"]["bytes_proven"]) == (0, 0)
    assert_not_proven(checked)
    assert checked["result"]["problem_count"] > 0


@pytest.mark.campaign
def test_files_lost_in_a_repair_remain_unproven(backed_up: Made) -> None:
    flip_a_byte(largest_segment(backed_up))

    repaired = backed_up.run("check", repair=True)
    restored = backed_up.run("restore-check", full_archive=True)

    assert repaired["status"] == "completed_with_warnings"
    assert repaired["result"]["problem_count"] > 0
    assert_not_proven(restored)
    assert restored["result"]["files_proven"] == len(files_of(backed_up)) - 1
    assert [Path(problem["path"]).name for problem in restored["result"]["problems"]] == ["large"]
