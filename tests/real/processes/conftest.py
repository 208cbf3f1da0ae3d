"""Two installations shared by the tests of this folder; a test may kill any of their processes."""

import contextlib
from collections.abc import Iterator

import pytest

from tests.real.processes.paced_backups import GRACE_SECONDS
from tests.support.engines import ENGINES
from tests.support.installation import Installation
from tests.support.paced_engine import PacedEngine
from tests.support.postgres import postgres_server
from tests.support.service import ServiceProcess

ENGINE = ENGINES[max(ENGINES)]


@pytest.fixture(scope="package")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """One installation on SQLite."""
    folder = tmp_path_factory.mktemp("embedded")
    environment = {"HOLDFAST_CANCEL_GRACE_SECONDS": str(GRACE_SECONDS)}
    installation = Installation(folder, PacedEngine(folder / "engine", ENGINE), environment=environment)
    with prepared(installation, "all"):
        yield installation


@pytest.fixture(scope="package")
def split(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """One installation on PostgreSQL, in processes of different roles."""
    folder = tmp_path_factory.mktemp("split")
    with postgres_server().database() as url:
        installation = Installation(folder, PacedEngine(folder / "engine", ENGINE), database_url=url)
        with prepared(installation, "api"):
            yield installation


@contextlib.contextmanager
def prepared(installation: Installation, role: str) -> Iterator[None]:
    installation.main = installation.service(role)
    try:
        installation.prepare(installation.main.start())
        yield
    finally:
        installation.end_everything()


@pytest.fixture
def service(embedded: Installation) -> Iterator[ServiceProcess]:
    """The running service of the embedded installation; a test may kill it and need not restart it."""
    yield embedded.up()
    assert not embedded.engine.overlaps()


@pytest.fixture
def api(split: Installation) -> Iterator[ServiceProcess]:
    yield split.up()
    assert not split.engine.overlaps()
