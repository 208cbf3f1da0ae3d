"""A process on another machine serves archives that were indexed elsewhere."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.contract.archives.world import World
from tests.support.service import Client, ServiceProcess


@pytest.fixture
def world(worlds: Callable[[str], World]) -> World:
    return worlds("postgresql")


@pytest.fixture
def elsewhere(world: World, tmp_path: Path) -> Iterator[Client]:
    """A process that only serves requests, with the same store and secret key as the first one."""
    first = world.running.process
    key = {"HOLDFAST_SECRET_KEY_FILE": str(first.data_dir / "secret.key")}
    (tmp_path / "data").symlink_to(
        first.data_dir
    )  # every process needs the shared data folder, here under another name
    second = ServiceProcess(
        tmp_path / "data", {**first.environment, **key}, database_url=first.database_url, role="api"
    )
    second.start()
    with second.client() as client:
        client.headers.update(world.running.admin.headers)
        yield client
    second.stop()


def test_a_process_on_another_machine_serves_the_same_file_history(world: World, elsewhere: Client) -> None:
    for route, query in (("/search", {"q": "notes"}), ("/archives", {}), ("/history", {"path": world.at("notes.txt")})):
        assert world.get(route, client=elsewhere, **query) == world.get(route, **query)
    assert len(world.get("/search", client=elsewhere, q="notes")["results"]) == 2
