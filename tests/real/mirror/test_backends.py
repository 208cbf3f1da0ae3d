"""A mirror on each kind of remote that can be served here: synced and hydrated, and accepted by the engine."""

from pathlib import Path

import pytest

from tests.real.mirror.world import a_world
from tests.support.engines import ENGINE_2
from tests.support.rclone import are_equal, serving
from tests.support.running import Services

AT_LENGTH = pytest.mark.campaign
OF_ENGINE_2 = pytest.mark.skipif(ENGINE_2 is None, reason="engine 2 is not installed")


@pytest.mark.parametrize(
    ("provider", "engine"),
    [
        ("webdav", 1),
        *(pytest.param(name, 1, marks=AT_LENGTH) for name in ("s3", "sftp", "local")),
        *(pytest.param(name, 2, marks=[AT_LENGTH, OF_ENGINE_2]) for name in ("webdav", "s3", "sftp", "local")),
    ],
)
def test_a_mirror_grows_with_its_repository_and_is_hydrated_completely(
    services: Services, tmp_path: Path, provider: str, engine: int
) -> None:
    with serving(provider, tmp_path / "served") as backend:
        world = a_world(services.get(), backend, engine)
        world.back_up(500_000)
        again = world.end(world.start_sync())
        assert (again["status"], world.is_equal()) == ("completed", True)
        assert again["result"]["transferred_bytes"] < again["result"]["source_bytes"] + 100_000
        assert again["result"]["verified"] is True

        hydrated = world.running.new_path("hydrated")
        ended = world.end(world.start_hydrate(hydrated))

    assert ended["status"] == "completed", ended
    assert are_equal(hydrated, world.path, but="nonce"), "the engine's check takes the next number for itself"
    assert world.restored(hydrated) == world.source_files()
    assert world.admin.wait_for_end(world.admin.start_backup(world.repository))["status"] == "completed", (
        "the engine still knows the repository at its own place"
    )
