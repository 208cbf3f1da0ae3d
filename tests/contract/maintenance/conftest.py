from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.contract.maintenance.jobs import Made
from tests.support.archive_sets import OwnEngine
from tests.support.running import Running, Services

NAMES = ("first", "second", "third")


def made(running: Running, **settings: Any) -> Made:
    """A repository with three archives, a day apart, created without the service."""
    repository = running.new_repository(index_mode="off", **settings)
    source = Path(repository["source_paths"][0])
    engine = OwnEngine.of(running)
    today = datetime.now(UTC).replace(microsecond=0)
    engine.make(repository, [(name, today - timedelta(days=10 - at)) for at, name in enumerate(NAMES)], source)
    return Made(running, repository, engine)


@pytest.fixture(scope="package")
def kept(services: Services) -> dict[str, Made]:
    """For each store, a repository shared by the tests of refusals, which do not change it."""
    del services
    return {}


@pytest.fixture
def unchanged(running: Running, kept: dict[str, Made]) -> Made:
    store = str(running.process.database_url)
    if store not in kept:
        kept[store] = made(running)
    return kept[store]


@pytest.fixture
def archived(running: Running) -> Made:
    return made(running)
