from pathlib import Path

import pytest

from tests.contract.engine2.world import SECONDS, World, build
from tests.support.engines import ENGINE_2
from tests.support.running import Running, Services

HERE = Path(__file__).parent
collect_ignore_glob = [] if ENGINE_2 else ["test_*.py"]


@pytest.fixture(scope="session")
def running(services: Services) -> Running:
    """The service that others use too; its requests that ask engine 2 may take long on a busy machine."""
    running = services.get("sqlite")
    running.admin.timeout = SECONDS
    return running


@pytest.fixture
def program(running: Running) -> Path:
    """Engine 2 as the service finds it."""
    return running.folder / "borg2"


@pytest.fixture(scope="session")
def world(running: Running) -> World:
    """A repository of engine 2 with two indexed archives. Tests read it, and change nothing in it."""
    return build(running)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first test pays for the service and the world, also on a machine that is busy with other things."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.timeout(600))
