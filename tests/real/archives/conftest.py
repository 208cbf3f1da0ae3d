from collections.abc import Iterator

import pytest

from tests.real.archives.service import Installed


@pytest.fixture(scope="package")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """A service with a scripted engine, shared by tests: each has its own repository."""
    installed = Installed.start(tmp_path_factory.mktemp("scripted"))
    yield installed
    installed.process.stop(60)


@pytest.fixture(scope="package")
def by_chunks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """A service with the real engine, shared by tests."""
    installed = Installed.start(tmp_path_factory.mktemp("by-chunks"), scripted=False)
    yield installed
    installed.process.stop(60)
