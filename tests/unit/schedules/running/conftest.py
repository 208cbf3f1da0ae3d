from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.stores import KINDS, a_store
from tests.unit.schedules.running.world import World


@pytest.fixture(params=KINDS)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    with a_store(request.param, tmp_path) as database:
        yield World(database)
