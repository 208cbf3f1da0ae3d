"""A mirror on each kind of remote that can be served here: there and back again, and the engine is content."""

import tarfile
from pathlib import Path

import pytest

from tests.real.mirror.world import a_world
from tests.support.rclone import are_equal, serving
from tests.support.running import PASSPHRASE, Running, Services

AT_LENGTH = pytest.mark.campaign


@pytest.mark.parametrize(
    "provider", ["webdav", *(pytest.param(name, marks=AT_LENGTH) for name in ("s3", "sftp", "local"))]
)
def test_a_mirror_grows_with_its_repository_and_gives_all_of_it_back(
    services: Services, tmp_path: Path, provider: str
) -> None:
    with serving(provider, tmp_path / "served") as backend:
        world = a_world(services.get(), backend)
        world.back_up(500_000)
        again = world.end(world.start_sync())
        assert (again["status"], world.is_equal()) == ("completed", True)
        assert again["result"]["transferred_bytes"] < again["result"]["source_bytes"] + 100_000
        assert again["result"]["verified"] is True

        hydrated = world.running.new_path("hydrated")
        ended = world.end(world.start_hydrate(hydrated))

    assert ended["status"] == "completed", ended
    assert are_equal(hydrated, world.path, but="nonce"), "the engine's check takes the next number for itself"
    extracted = restored(world.running, hydrated)
    source = Path(world.repository["source_paths"][0])
    assert extracted == {file.name: file.read_bytes() for file in source.iterdir()}
    assert world.admin.wait_for_end(world.admin.start_backup(world.repository))["status"] == "completed", (
        "the engine still knows the repository at its own place"
    )


def restored(running: Running, repository: Path) -> dict[str, bytes]:
    """The files of the newest archive, extracted by an engine that has never seen the repository before."""
    outside, folder = running.outside, running.new_folder("restored")
    newest = list(outside.archives(repository, PASSPHRASE))[-1]
    outside.run("export-tar", f"{repository}::{newest}", str(folder / "all.tar"), passphrase=PASSPHRASE)
    with tarfile.open(folder / "all.tar") as archive:
        members = [member for member in archive.getmembers() if member.isfile()]
        return {Path(member.name).name: archive.extractfile(member).read() for member in members}  # type: ignore[union-attr]
