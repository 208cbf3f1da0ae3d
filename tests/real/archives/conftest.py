from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.archives.service import Installed

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """A service with a scripted engine that tests share: each has a repository of its own."""
    installed = Installed.start(tmp_path_factory.mktemp("scripted"))
    yield installed
    installed.process.stop(60)


@pytest.fixture(scope="session")
def by_chunks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """A service with the real engine that tests share."""
    installed = Installed.start(tmp_path_factory.mktemp("by-chunks"), scripted=False)
    yield installed
    installed.process.stop(60)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Real engines take their time on a machine that is busy with other things."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.timeout(900))
