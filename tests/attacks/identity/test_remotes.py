"""Engine 2 keeps a repository on a remote through rclone: the engine is queried for its identity before it is used."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attacks.identity.test_repository_identity import archives, backed_up, content_of, put_stranger
from tests.contract.fields import error_of
from tests.real.mirror.engine2_remotes import OnRemote, on_remote
from tests.support.engines import ENGINE_2
from tests.support.rclone import RCLONE, serving
from tests.support.running import Services

pytestmark = pytest.mark.skipif(ENGINE_2 is None or RCLONE is None, reason="engine 2 or rclone is not installed")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OnRemote]:
    services = Services(tmp_path_factory.mktemp("services"))
    with serving("webdav", tmp_path_factory.mktemp("served")) as backend:
        yield on_remote(services.get(), backend)
    services.stop()


def test_a_foreign_repository_or_an_older_copy_on_a_remote_is_not_mistaken_for_the_repository(
    world: OnRemote, tmp_path: Path
) -> None:
    admin, running = world.admin, world.running
    repository = world.create(index_mode="archives")
    place = world.backend.seen(repository["path"].split(":", 2)[2])
    backed_up(admin, repository)
    running.wait_until_idle()
    shutil.copytree(place, tmp_path / "older")
    backed_up(admin, repository)
    running.wait_until_idle()
    before = archives(admin, repository)
    place.rename(tmp_path / "kept")
    put_stranger(running, 2, place)
    stranger = content_of(place)

    for job in (
        admin.start_backup(repository),
        admin.post(f"/api/repositories/{repository['id']}/resync").json()["operations"][0],
    ):
        ended = admin.wait_for_end(job)
        assert (ended["status"], ended["error_key"]) == ("failed", "repository.replaced")
    live = admin.get("/api/archives/list", params={"repository_id": repository["id"]})
    assert error_of(live) == (409, "repository.replaced")
    running.wait_until_idle()
    assert content_of(place) == stranger
    assert archives(admin, repository).keys() == before.keys()

    shutil.rmtree(place)
    shutil.copytree(tmp_path / "older", place)
    assert admin.wait_for_end(admin.start_backup(repository))["error_key"] == "engine.repository_older"
    confirmed = admin.post(f"/api/repositories/{repository['id']}/confirm-older", json={})
    assert (confirmed.status_code, confirmed.json().get("missing_count")) == (200, 1), confirmed.text
    backed_up(admin, repository)
    running.wait_until_idle()
    assert sorted(bool(archive["lost_at"]) for archive in archives(admin, repository).values()) == [False, False, True]
