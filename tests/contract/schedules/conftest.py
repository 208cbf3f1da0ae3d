import pytest

from tests.contract.schedules.scheduled import Scheduled
from tests.support.running import Running


@pytest.fixture
def scheduled(running: Running) -> Scheduled:
    return Scheduled(running)
