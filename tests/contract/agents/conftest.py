from collections.abc import Iterator

import pytest

from tests.contract.agents.agent import Machines
from tests.support.running import Running, Services


@pytest.fixture(scope="package")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    """Separate services, because other tests expect an empty queue, and jobs that no agent ever claims stay in it."""
    services = Services(tmp_path_factory.mktemp("agent-services"))
    yield services
    services.stop()


@pytest.fixture(scope="package")
def on_sqlite(services: Services) -> Machines:
    return Machines(services.get("sqlite"))


@pytest.fixture
def machines(on_sqlite: Machines) -> Machines:
    """Most rules do not depend on the store; tests of those that do use `on_either_store`."""
    return on_sqlite


@pytest.fixture
def on_either_store(running: Running) -> Machines:
    return Machines(running)
