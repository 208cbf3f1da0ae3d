from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.storage.session import Database
from tests.support.stores import KINDS, a_store


@pytest.fixture(params=KINDS)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    with a_store(request.param, tmp_path) as opened:
        yield opened
