"""rclone, its shim and the service are killed while a mirror is copied: after a retry it is equal to its source."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.mirror.world import World, a_world
from tests.support.rclone import are_equal, serving
from tests.support.running import Services
from tests.support.service import wait_until

AT_LENGTH = pytest.mark.campaign
MEBIBYTE = 1 << 20


@pytest.fixture(scope="module")
def world(services: Services, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with serving("webdav", tmp_path_factory.mktemp("served")) as backend, services.own() as running:
        yield a_world(running, backend, bandwidth_limit_kib=1000)


@pytest.mark.parametrize(
    "target", [pytest.param("rclone", marks=AT_LENGTH), "service", pytest.param("shim", marks=AT_LENGTH)]
)
def test_an_interrupted_sync_is_resumed_and_ends_with_an_equal_mirror(world: World, target: str) -> None:
    world.back_up(3 * MEBIBYTE)
    job = world.start_sync()
    world.wait_until_copying(job, 20.0)

    world.strike(target, job)
    ended = world.end(job)

    assert ended["status"] == "completed", ended
    assert ended["attempt"] == (1 if target == "service" else 2)
    assert world.is_equal()
    assert world.copies() == []


@AT_LENGTH
def test_a_cancelled_sync_leaves_a_usable_mirror_and_the_next_sync_makes_it_equal(world: World) -> None:
    before = world.archives(world.path)
    world.back_up(3 * MEBIBYTE)
    job = world.start_sync()
    world.wait_until_copying(job, 20.0)

    world.admin.post(f"/api/operations/{job}/cancel")
    cancelled = world.end(job)

    assert (cancelled["status"], world.copies()) == ("cancelled", [])
    assert not world.is_equal()
    assert world.archives(world.mirror) == before, "as it was before the sync"
    assert world.end(world.start_sync())["status"] == "completed"
    assert world.is_equal()


@AT_LENGTH
@pytest.mark.parametrize("target", ["rclone", "service"])
def test_an_interrupted_hydrate_is_resumed(world: World, target: str) -> None:
    hydrated = world.running.new_path("hydrated")
    job = world.start_hydrate(hydrated)
    world.wait_until_copying(job, 20.0)

    world.strike(target, job)
    ended = world.end(job)

    assert ended["status"] == "completed", ended
    assert are_equal(world.mirror, hydrated, but="nonce")
    assert not (hydrated / ".holdfast-hydrate").exists()


@AT_LENGTH
def test_a_cancelled_hydrate_can_be_repeated_in_the_same_folder_until_it_is_complete(world: World) -> None:
    hydrated = world.running.new_path("hydrated")
    job = world.start_hydrate(hydrated)
    world.wait_until_copying(job, 20.0)
    world.admin.post(f"/api/operations/{job}/cancel")
    assert world.end(job)["status"] == "cancelled"
    begun = sorted(file.name for file in hydrated.rglob("*") if file.is_file())
    assert len(begun) > 1

    again = world.end(world.start_hydrate(hydrated))

    assert again["status"] == "completed", again
    assert are_equal(world.mirror, hydrated, but="nonce")
    body = {"destination": str(hydrated), "confirm": True}
    assert world.admin.post(f"{world.url}/hydrate", json=body).status_code == 422, "it is whole now"


@AT_LENGTH
def test_a_sync_waits_for_a_lock_of_another_program_and_completes_once_it_is_broken(world: World) -> None:
    world.running.outside.leave_lock(world.path)

    job = world.start_sync()
    waiting = wait_until(
        lambda: found if (found := world.admin.operation(job))["attempt"] > 1 else None, what="tried again"
    )
    released = world.admin.post(f"/api/repositories/{world.repository['id']}/break-lock")

    assert waiting["status"] in ("pending", "running")
    assert released.status_code == 200, released.text
    assert world.end(job)["status"] == "completed"
    assert Path(world.mirror / "config").is_file()
