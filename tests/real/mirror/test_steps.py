"""A sync that stops before or during any step: the mirror can still be opened, and the next sync makes it equal."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.contract.engine2.world import run
from tests.real.mirror.world import World, a_world
from tests.support.engines import ENGINE_2
from tests.support.rclone import serving
from tests.support.running import Services

pytestmark = pytest.mark.campaign
SCRIPT = """#!/bin/sh
. '{folder}/stop'
case "$*" in *"$first"*"$then"*) {{ [ -z "$more" ] && kill -9 $$; }} || exec '{rclone}' "$@" $more ;; esac
exec '{rclone}' "$@"
"""
NOWHERE = ("no such", "step")
STEPS = {
    1: {"data": ("copy ", "--min-size"), "names": ("sync ", "lock.roster"), "settings": ("copy ", "--ignore-times")},
    2: {
        "data": ("copy ", "+ /packs/**"),
        "mark": ("copyto ", "chunkindex-invalid"),
        "names": ("sync ", "- /packs/**"),
        "leftovers": ("sync ", "+ /packs/**"),
        "settings": ("copy ", "--ignore-times"),
        "unmark": ("deletefile ", "chunkindex-invalid"),
    },
}
"""What distinguishes the rclone runs from one another, for each engine."""
STOPS = [(engine, step, "") for engine, steps in STEPS.items() for step in steps if engine == 1 or ENGINE_2]
STOPS += [(engine, step, "--max-delete 1") for engine, step, _ in STOPS if step in ("names", "leftovers")]


@dataclass
class Stopping:
    """An rclone that dies at a given step, or completes only part of it."""

    folder: Path

    def stop_at(self, words: tuple[str, str], more: str = "") -> None:
        (self.folder / "stop").write_text(f"first='{words[0]}'\nthen='{words[1]}'\nmore='{more}'\n")

    @property
    def program(self) -> Path:
        return self.folder / "rclone"


@pytest.fixture(scope="module")
def stopping(tmp_path_factory: pytest.TempPathFactory) -> Stopping:
    stopping = Stopping(tmp_path_factory.mktemp("stopping"))
    stopping.program.write_text(SCRIPT.format(folder=stopping.folder, rclone=shutil.which("rclone")))
    stopping.program.chmod(0o755)
    stopping.stop_at(NOWHERE)
    return stopping


@pytest.fixture(scope="module")
def worlds(
    services: Services, stopping: Stopping, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[int, World]]:
    """A mirrored repository of each engine."""
    with serving("webdav", tmp_path_factory.mktemp("served")) as backend:
        running = services.new(HOLDFAST_RCLONE=str(stopping.program))
        engines = sorted({engine for engine, _, _ in STOPS})
        yield {engine: a_world(running, backend, engine, shrink_threshold_percent=100) for engine in engines}


@pytest.mark.parametrize(("engine", "step", "more"), STOPS)
def test_a_mirror_can_be_opened_wherever_its_sync_has_stopped(
    worlds: dict[int, World], stopping: Stopping, engine: int, step: str, more: str
) -> None:
    world, words = worlds[engine], STEPS[engine][step]
    world.back_up(600_000)
    world.back_up(400_000)
    assert world.end(world.start_sync())["status"] == "completed"
    before = world.archives(world.mirror)
    source = Path(world.repository["source_paths"][0])
    for file in source.iterdir():
        file.unlink()  # so that a compaction has something to remove
    world.back_up(500_000)
    assert run(world.running, world.repository, "prune", keep_last=1)["status"] == "completed"
    assert run(world.running, world.repository, "compact")["status"] == "completed"
    after = world.archives(world.path)

    stopping.stop_at(words, more)
    stopped = world.end(world.start_sync())
    stopping.stop_at(NOWHERE)
    assert stopped["status"] == "failed", stopped
    opened = world.archives(world.mirror)
    ended = world.end(world.start_sync())

    assert before & after <= opened <= before | after
    assert opened, "there is always something to restore"
    assert ended["status"] == "completed", ended
    assert world.is_equal()
    assert world.archives(world.mirror) == after
