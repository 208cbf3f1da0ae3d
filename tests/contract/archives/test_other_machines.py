"""A process on another machine: what was indexed elsewhere is known there."""

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
    """A process that only answers requests, over the same store, with nothing of the first one but its key."""
    first = world.running.process
    key = {"HOLDFAST_SECRET_KEY_FILE": str(first.data_dir / "secret.key")}
    (tmp_path / "data").symlink_to(first.data_dir)  # shared, as every process needs it, under another name
    second = ServiceProcess(
        tmp_path / "data", {**first.environment, **key}, database_url=first.database_url, role="api"
    )
    second.start()
    with second.client() as client:
        client.headers.update(world.running.admin.headers)
        yield client
    second.stop()


def test_the_file_history_is_answered_alike_by_a_process_of_another_machine(world: World, elsewhere: Client) -> None:
    for route, query in (("/search", {"q": "notes"}), ("/archives", {}), ("/history", {"path": world.at("notes.txt")})):
        assert world.get(route, client=elsewhere, **query) == world.get(route, **query)
    assert len(world.get("/search", client=elsewhere, q="notes")["results"]) == 2
