"""A repository of engine 2 that is damaged or reset to an older copy does not overwrite its good mirror."""

import json
import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.contract.mirror.mirrored import Mirrored, set_mirror
from tests.support.engines import ENGINE_2
from tests.support.rclone import are_equal
from tests.support.running import Running, Services

pytestmark = pytest.mark.skipif(ENGINE_2 is None, reason="engine 2 is not installed")
SUSPICIOUS = "mirror.source_suspicious"


@pytest.fixture(scope="module")
def running(services: Services) -> Running:
    return services.get("sqlite")


@pytest.fixture(scope="module")
def made(running: Running) -> Mirrored:
    """A mirrored repository with an archive. Tests that change either restore its previous state."""
    repository = running.new_repository(engine_version=2)
    assert running.admin.wait_for_end(running.admin.start_backup(repository))["status"] == "completed"
    return set_mirror(running, repository)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def largest_pack(folder: Path) -> Path:
    packs = [path for path in (folder / "packs").rglob("*") if path.is_file()]
    return max(packs, key=lambda path: path.stat().st_size)


def lose_a_pack(made: Mirrored) -> None:
    largest_pack(Path(made.repository["path"])).unlink()


def cut_a_pack(made: Mirrored) -> None:
    """Truncate a pack whose mirrored copy is complete."""
    pack = largest_pack(Path(made.repository["path"]))
    pack.write_bytes(pack.read_bytes()[:-10])


def add_a_damaged_pack(made: Mirrored) -> None:
    """Add a pack that the mirror does not have yet."""
    folder = Path(made.repository["path"]) / "packs" / "00"
    folder.mkdir(exist_ok=True)
    (folder / ("00" * 32)).write_bytes(b"not what it is called by")


def lose_the_config(made: Mirrored) -> None:
    (Path(made.repository["path"]) / "config" / "id").unlink()


def lose_all_packs(made: Mirrored) -> None:
    shutil.rmtree(Path(made.repository["path"]) / "packs")


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lose_a_pack, "segments_missing"),
        (cut_a_pack, "damaged"),
        (add_a_damaged_pack, "damaged"),
        (lose_the_config, "config_missing"),
        (lose_all_packs, "segments_missing"),
    ],
)
def test_a_repository_with_damaged_or_missing_files_does_not_reach_the_mirror(
    made: Mirrored, spoil: object, reason: str
) -> None:
    good = files(made.folder)

    with made.spoiled():
        spoil(made)  # type: ignore[operator]
        ended = made.sync()

    assert (ended["status"], ended["error_key"]) == ("failed", SUSPICIOUS), ended
    assert reason in ended["result"]["reasons"]
    assert files(made.folder) == good
    assert made.sync()["status"] == "completed"


def test_a_pack_that_rots_after_it_was_mirrored_is_reported_and_the_mirror_stays_good(made: Mirrored) -> None:
    good = files(made.folder)

    with made.spoiled():
        pack = largest_pack(Path(made.repository["path"]))
        pack.write_bytes(os.urandom(pack.stat().st_size))
        ended = made.sync()

    assert (ended["status"], ended["error_key"]) == ("failed", "mirror.verification_failed")
    assert files(made.folder) == good


def test_a_repository_reset_to_an_older_copy_is_mirrored_only_with_the_override(made: Mirrored) -> None:
    with made.spoiled():  # puts the older copy back
        assert made.admin.wait_for_end(made.admin.start_backup(made.repository))["status"] == "completed"
        assert made.sync()["status"] == "completed"
    good = files(made.folder)

    refused = made.sync()
    assert (refused["error_key"], refused["result"]["reasons"]) == (SUSPICIOUS, ["set_back"])
    assert files(made.folder) == good
    assert made.sync(override_sanity=True)["status"] == "completed"
    assert are_equal(Path(made.repository["path"]), made.folder)
    assert made.sync()["status"] == "completed", "from now on this is the state to compare with"


def lock(minutes_ago: int, *, exclusive: bool) -> str:
    when = (datetime.now(UTC) - timedelta(minutes=minutes_ago)).isoformat(timespec="milliseconds")
    return json.dumps({"exclusive": exclusive, "hostid": "other@1", "processid": 1, "threadid": 0, "time": when})


@pytest.mark.campaign
def test_a_sync_respects_only_recent_exclusive_locks_of_other_programs(made: Mirrored) -> None:
    file = Path(made.repository["path"]) / "locks" / ("ab" * 32)
    file.parent.mkdir(exist_ok=True)
    file.write_text(lock(0, exclusive=True))
    try:
        job = made.admin.post(f"{made.url}/sync").json()["job_id"]
        ended = made.admin.wait_for_end(job)
    finally:
        file.unlink()

    assert (ended["status"], ended["error_key"]) == ("failed", "engine.locked")
    for text in (lock(40, exclusive=True), lock(0, exclusive=False), "{"):
        file.write_text(text)
        assert made.sync()["status"] == "completed", text
    file.unlink()
    assert not (made.folder / "locks").exists()
