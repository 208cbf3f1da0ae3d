import pytest

from tests.contract.agents.agent import Machines
from tests.support.running import Running, Services


@pytest.fixture(scope="session")
def on_sqlite(services: Services) -> Machines:
    return Machines(services.get("sqlite"))


@pytest.fixture
def machines(on_sqlite: Machines) -> Machines:
    """Most rules do not depend on the store; those that do take `on_either_store`."""
    return on_sqlite


@pytest.fixture
def on_either_store(running: Running) -> Machines:
    return Machines(running)
