"""Mirrors struck repeatedly at random instants, with both engines and on two kinds of remotes.

`HOLDFAST_MIRROR_SEEDS=100-199` plays other seeds than the default ones.
"""

import os
import random
import time
from collections.abc import Iterator

import pytest

from tests.contract.engine2.world import run
from tests.real.mirror.world import World, a_world
from tests.support.cuttable import Line, by_a_line
from tests.support.engines import ENGINE_2
from tests.support.rclone import are_equal, serving
from tests.support.running import Running, Services

pytestmark = pytest.mark.campaign
MEBIBYTE = 1 << 20
FIRST, LAST = map(int, os.environ.get("HOLDFAST_MIRROR_SEEDS", "0-23").split("-"))
KINDS = [(engine, provider) for provider in ("webdav", "s3") for engine in ((1, 2) if ENGINE_2 else (1,))]
TARGETS = ("rclone", "shim", "service", "server")
CUT_OFF = {"operations.interrupted", "rclone.unreachable", "rclone.failed", "mirror.verification_failed"}
"""How a sync may fail whose processes were killed three times, or whose server was down."""

Struck = tuple[World, Line]


@pytest.fixture(scope="module")
def running(services: Services) -> Running:
    return services.new()


@pytest.fixture(scope="module", params=KINDS, ids=lambda kind: f"engine-{kind[0]}-{kind[1]}")
def struck(
    request: pytest.FixtureRequest, running: Running, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Struck]:
    engine, provider = request.param
    with serving(provider, tmp_path_factory.mktemp("served")) as backend, by_a_line(backend) as reached:
        yield a_world(running, reached.backend, engine, bandwidth_limit_kib=1500), reached.line


@pytest.mark.parametrize("seed", range(FIRST, LAST + 1, len(KINDS)))
def test_a_mirror_struck_at_random_instants_stays_usable_and_ends_equal(struck: Struck, seed: int) -> None:
    world, line = struck
    chance = random.Random(f"{seed} {world.repository['engine_version']} {world.backend.provider}")
    before = world.archives(world.mirror)
    world.back_up(chance.randint(MEBIBYTE // 4, 3 * MEBIBYTE))
    if chance.random() < 0.4:
        assert run(world.running, world.repository, "prune", keep_last=1)["status"] == "completed"
        assert run(world.running, world.repository, "compact")["status"] == "completed"
    after = world.archives(world.path)

    job = world.start_sync()
    for _ in range(chance.randint(1, 3)):
        time.sleep(chance.uniform(0.0, 3.0))
        strike(world, line, chance.choice(TARGETS), job)
    if chance.random() < 0.5:
        world.admin.post(f"/api/operations/{job}/cancel")
        world.end(job)
        opened = world.archives(world.mirror)
        assert before & after <= opened <= before | after
        job = world.start_sync()

    ended = world.end(job)
    if ended["status"] == "failed":
        assert ended["error_key"] in CUT_OFF, ended
        ended = world.end(world.start_sync())
    assert ended["status"] == "completed", (seed, ended)
    assert world.is_equal(), seed
    hydrate(world, line, chance)


def strike(world: World, line: Line, target: str, job: int) -> None:
    if target != "server":
        world.strike(target, job)
        return
    line.cut()
    time.sleep(0.5)
    line.mend()


def hydrate(world: World, line: Line, chance: random.Random) -> None:
    """Hydrate into a new folder and disrupt that too; the result must be complete."""
    destination = world.running.new_path("hydrated")
    job = world.start_hydrate(destination)
    if chance.random() < 0.5:
        time.sleep(chance.uniform(0.0, 3.0))
        strike(world, line, chance.choice(TARGETS), job)
    ended = world.end(job)
    if ended["status"] == "failed":
        assert ended["error_key"] in CUT_OFF, ended
        ended = world.end(world.start_hydrate(destination))
    assert ended["status"] == "completed", ended
    assert are_equal(world.mirror, destination, but="nonce")
    assert world.restored(destination) == world.source_files()
