import os
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.running import Running, Services
from tests.support.service import Client

HERE = Path(__file__).parent
WITH_ENGINE = [HERE / name for name in ("archives", "maintenance", "mirror", "packages", "repositories", "restore")]
STORES = ("sqlite", "postgresql")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Rows of the contract that run the engine take each their turn on one of the stores, told by their name.

    All of them on both: `HOLDFAST_TEST_STORES=both`. What depends on the store runs on both in `unit` and `access`.
    """
    if os.environ.get("HOLDFAST_TEST_STORES") == "both":
        return
    known = {item.nodeid for item in items}
    left_out = [item for item in items if any(item.path.is_relative_to(folder) for folder in WITH_ENGINE)]
    left_out = [item for item in left_out if _runs_on_the_other_store(item.nodeid, known)]
    config.hook.pytest_deselected(items=left_out)
    gone = {item.nodeid for item in left_out}
    items[:] = [item for item in items if item.nodeid not in gone]


def _runs_on_the_other_store(name: str, known: set[str]) -> bool:
    """True for a test that is there for both stores and whose turn is on the other one."""
    word = re.compile(r"\b(sqlite|postgresql)\b")
    here = word.search(name.partition("[")[2])
    if here is None:
        return False
    other = STORES[1 - STORES.index(here[0])]
    file, _, test = name.partition("[")
    chosen = STORES[zlib.crc32(word.sub("store", name).encode()) % 2]
    return f"{file}[{word.sub(other, test, count=1)}" in known and here[0] != chosen


@pytest.fixture(scope="session")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    """The services of this test process. Starting one costs more than most tests, so they are shared."""
    services = Services(tmp_path_factory.mktemp("services"))
    yield services
    services.stop()


@pytest.fixture(params=["sqlite", "postgresql"])
def running(request: pytest.FixtureRequest, services: Services) -> Running:
    return services.get(request.param)


@pytest.fixture
def admin(running: Running) -> Client:
    return running.admin
