"""Which jobs may share a repository, observed in the engine's own processes; `MIXED_JOBS` sets how many are mixed."""

import os
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pytest

from tests.real.maintenance.world import World, a_world

JOBS = int(os.environ.get("MIXED_JOBS", "20"))
REPOSITORIES = 5 if JOBS >= 100 else 2
SHARED = "restore_check"
KINDS = ("check", "compact", "prune", "restore_check", "backup")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with a_world(tmp_path_factory.mktemp("world")) as world:
        world.allow_everything()
        yield world


def test_two_restore_checks_share_a_repository_and_a_check_waits_for_both(world: World) -> None:
    repository = world.new_repository()
    with world.engine.held("before", "extract"):
        together = [world.start("restore_check", repository) for _ in range(2)]
        world.engine.wait_until_held("before", "extract", 2)
        check = world.start("check", repository)
        later = world.start("restore_check", repository)

        assert [world.admin.operation(operation)["status"] for operation in together] == ["running", "running"]
        assert world.admin.operation(check)["queued_reason"] == "repository_busy"
        assert world.admin.operation(later)["queued_behind_id"] == check, "nobody overtakes whom it would block"

    ended = [world.admin.wait_for_end(operation) for operation in (*together, check, later)]
    assert [operation["status"] for operation in ended] == ["completed"] * 4
    assert ended[2]["started_at"] >= max(operation["completed_at"] for operation in ended[:2])
    assert ended[3]["started_at"] >= ended[2]["completed_at"]
    assert world.engine.overlaps() == []


def start(world: World, kind: str, repository: dict[str, Any]) -> int:
    return world.admin.start_backup(repository) if kind == "backup" else world.start(kind, repository)


@pytest.mark.timeout(1800)
def test_mixed_jobs_submitted_together_all_end_in_a_fair_order_and_never_overlap(world: World) -> None:
    chance = random.Random(JOBS)
    repositories = [world.new_repository() for _ in range(REPOSITORIES)]
    wanted = [(chance.choice(KINDS), chance.choice(repositories)) for _ in range(JOBS)]

    with ThreadPoolExecutor(8) as pool:
        started = list(pool.map(lambda job: start(world, *job), wanted))
    ended = [world.admin.wait_for_end(operation, 1500) for operation in started]

    assert {operation["status"] for operation in ended} == {"completed"}
    assert world.engine.overlaps() == []
    for repository in repositories:
        mine = sorted(
            (operation for operation in ended if operation["repository_id"] == repository["id"]),
            key=lambda operation: operation["id"],
        )
        for earlier, later in pairwise(mine):
            assert earlier["started_at"] <= later["started_at"], "first come, first served"
            if SHARED not in (earlier["kind"], later["kind"]) or earlier["kind"] != later["kind"]:
                assert later["started_at"] >= earlier["completed_at"]
