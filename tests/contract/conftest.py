from collections.abc import Iterator

import pytest

from tests.support.running import Running, Services
from tests.support.service import Client


@pytest.fixture(scope="package")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    """The services of this test process. Starting one costs more than most tests, so they are shared."""
    services = Services(tmp_path_factory.mktemp("services"))
    yield services
    services.stop()


@pytest.fixture(params=["sqlite", "postgresql"])
def running(request: pytest.FixtureRequest, services: Services) -> Running:
    return services.get(request.param)


@pytest.fixture
def admin(running: Running) -> Client:
    return running.admin


@pytest.fixture(scope="package")
def impatient(services: Services) -> Running:
    """A service whose requests do not wait for a busy repository."""
    return services.new(HOLDFAST_INLINE_WAIT_SECONDS="0.3")
