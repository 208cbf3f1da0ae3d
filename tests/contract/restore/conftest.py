from pathlib import Path

import pytest

from tests.contract.restore.known import Known
from tests.support.running import Running, Services


@pytest.fixture(scope="session")
def knowns(services: Services) -> dict[str, Known]:
    del services
    return {}


@pytest.fixture
def known(running: Running, knowns: dict[str, Known]) -> Known:
    """An archive that tests restore from and must not change."""
    store = str(running.process.database_url)
    if store not in knowns:
        knowns[store] = Known(running)
    return knowns[store]


@pytest.fixture(scope="session")
def impatient(services: Services) -> Running:
    """A service whose requests do not wait for a busy repository."""
    return services.new(HOLDFAST_INLINE_WAIT_SECONDS="0.3")


@pytest.fixture
def destination(tmp_path: Path) -> Path:
    return tmp_path / "destination"
