"""Restores whose processes are killed at random instants: no stray files, no false success, and a second run completes
the restore.

`HOLDFAST_RESTORE_KILLS` sets how many restores are killed (the suite: 3).
"""

import contextlib
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.restore.archives import Workshop, below, private_folders, same_tree
from tests.support.processes import processes_naming
from tests.support.running import Services
from tests.support.trees import look_at, make_many_files

KILLS = int(os.environ.get("HOLDFAST_RESTORE_KILLS", "3"))
FILES = 1500
LONGEST_SECONDS = 2.5
"""About as long as the restore takes: the instants fall before, into and after each of its phases."""
VICTIMS = ("service", "engine", "shim", "all")


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    services = Services(tmp_path_factory.mktemp("killed"))
    yield Workshop(services.get())
    services.stop()


def kill(workshop: Workshop, operation_id: int, victim: str) -> None:
    """kill -9 the chosen processes of an operation; the service is restarted."""
    process = workshop.running.process
    if victim in ("service", "all"):
        process.kill()
    shims = processes_naming(f"{process.data_dir}/spool/{operation_id}/")
    if victim in ("shim", "all"):
        _kill_all(list(shims))
    if victim in ("engine", "all"):
        _kill_all([pid for pid, words in processes_naming("extract").items() if str(workshop.running.folder) in words])
    if victim in ("service", "all"):
        process.restart()


def _kill_all(pids: list[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("seed", range(KILLS))
def test_a_killed_restore_reports_the_truth_and_a_second_one_completes_it(
    workshop: Workshop, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    source, room = tmp_path / "source", tmp_path / "room"
    source.mkdir()
    room.mkdir()
    make_many_files(source, FILES)
    archive, destination = workshop.back_up(source), room / "destination"
    before = look_at(source)

    operation_id = workshop.start(archive, destination)
    time.sleep(chance.uniform(0, LONGEST_SECONDS))
    kill(workshop, operation_id, chance.choice(VICTIMS))
    ended = workshop.running.admin.wait_for_end(operation_id)

    assert {path.name for path in room.iterdir()} <= {"destination"}, "nothing lies beside the destination"
    assert look_at(source) == before
    assert ended["status"] in ("completed", "failed")
    restored = below(destination, source)
    if ended["status"] == "completed":
        same_tree(restored, source)
    else:
        assert ended["error_key"] == "operations.interrupted", ended
        partly = look_at(restored) if restored.exists() else {}
        assert partly.keys() <= before.keys()
        assert all(partly[path] == before[path] for path in partly if partly[path].type != 0o040000), "whole files only"

    again = workshop.restore(archive, destination, overwrite="replace")

    assert again["status"] == "completed", again
    same_tree(restored, source)
    assert private_folders(room) == []
