"""A remote without hashes compares files by size only: the service reports this, and can verify a sample."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.mirror.world import World, a_world
from tests.support.rclone import serving
from tests.support.running import Services


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    services = Services(tmp_path_factory.mktemp("services"))
    yield services
    services.stop()


def change_a_byte_of_each(world: World) -> None:
    for file in (world.mirror / "data").rglob("*"):
        if file.is_file():
            content = bytearray(file.read_bytes())
            content[len(content) // 2] ^= 1
            file.write_bytes(content)


def test_a_sample_detects_changed_bytes_on_a_remote_without_hashes(services: Services, tmp_path: Path) -> None:
    with serving("webdav", tmp_path / "served") as backend:
        world = a_world(services.get(), backend, 1)
        first = world.end(world.start_sync())
        assert (first["status"], first["result"]["verified_by"]) == ("completed", "sizes")
        assert world.admin.get(world.url).json()["verified_by"] == "sizes"

        change_a_byte_of_each(world)
        settings = world.admin.get(world.url).json()
        kept = {name: settings[name] for name in ("remote_id", "path", "mode", "verify")}
        assert world.admin.put(world.url, json={**kept, "verify_sample": 1000}).status_code == 200
        ended = world.end(world.start_sync())

    assert (ended["status"], ended["error_key"]) == ("failed", "mirror.verification_failed"), ended
