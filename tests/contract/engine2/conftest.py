from pathlib import Path

import pytest

from tests.contract.engine2.world import World, build
from tests.support.engines import ENGINE_2
from tests.support.running import Running, Services

collect_ignore_glob = [] if ENGINE_2 else ["test_*.py"]


@pytest.fixture(scope="package")
def running(services: Services) -> Running:
    """The service that other packages use too."""
    return services.get("sqlite")


@pytest.fixture
def program(running: Running) -> Path:
    """The path at which the service finds engine 2."""
    return running.folder / "borg2"


@pytest.fixture(scope="package")
def world(running: Running) -> World:
    """A repository of engine 2 with two indexed archives, which tests only read."""
    return build(running)
