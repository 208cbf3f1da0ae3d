import pytest

from tests.contract.scripts.written import Written
from tests.support.running import Running


@pytest.fixture
def written(running: Running) -> Written:
    return Written(running)
