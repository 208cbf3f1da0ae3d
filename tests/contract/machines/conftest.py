from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.running import Running, Services
from tests.support.service import Client
from tests.support.sshd import Sshd, sshd


@pytest.fixture
def running(services: Services) -> Running:
    return services.get()


@pytest.fixture
def admin(running: Running) -> Client:
    return running.admin


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """A machine that the tests of a file share, each with its own connection."""
    with sshd(tmp_path_factory.mktemp("machine")) as machine:
        yield machine


@pytest.fixture
def own_machine(tmp_path: Path) -> Iterator[Sshd]:
    """A machine that a test may stop and change."""
    with sshd(tmp_path / "machine") as machine:
        yield machine
