from collections.abc import Iterator

import pytest

from tests.real.restore.archives import Workshop
from tests.support.engines import ENGINES
from tests.support.running import Services


@pytest.fixture(scope="package")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    services = Services(tmp_path_factory.mktemp("restore-services"))
    yield services
    services.stop()


@pytest.fixture(scope="package")
def workshops(services: Services) -> dict[str, Workshop]:
    """A workshop for each engine, so that a test can restore what another test has backed up."""
    return {}


@pytest.fixture(params=sorted(ENGINES))
def workshop(request: pytest.FixtureRequest, services: Services, workshops: dict[str, Workshop]) -> Workshop:
    """Archives and restores with each engine."""
    return _workshop(request.param, services, workshops)


@pytest.fixture
def newest(services: Services, workshops: dict[str, Workshop]) -> Workshop:
    """Archives and restores with a single engine, for tests that do not depend on the engine."""
    return _workshop("1.4", services, workshops)


def _workshop(engine: str, services: Services, workshops: dict[str, Workshop]) -> Workshop:
    if engine not in workshops:
        workshops[engine] = Workshop(services.get("sqlite", engine))
    return workshops[engine]
