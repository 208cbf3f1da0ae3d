from collections.abc import Iterator

import pytest

from tests.contract.agents.agent import Machines
from tests.support.running import Running, Services


@pytest.fixture(scope="package")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    """Services of their own: jobs that no agent ever takes stay in the queue, which others want to see empty."""
    services = Services(tmp_path_factory.mktemp("agent-services"))
    yield services
    services.stop()


@pytest.fixture(scope="package")
def on_sqlite(services: Services) -> Machines:
    return Machines(services.get("sqlite"))


@pytest.fixture
def machines(on_sqlite: Machines) -> Machines:
    """Most rules do not depend on the store; those that do take `on_either_store`."""
    return on_sqlite


@pytest.fixture
def on_either_store(running: Running) -> Machines:
    return Machines(running)
