import fcntl
from collections.abc import Callable

import pytest

from tests.contract.archives.world import Story, World, build, tell
from tests.support.engines import ENGINES
from tests.support.running import Running, Services
from tests.support.warm_engines import warm_program


@pytest.fixture(scope="package")
def story(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Story:
    """The repository that every world copies, built once for all test processes."""
    base = tmp_path_factory.getbasetemp()
    shared = base if worker_id == "master" else base.parent
    with (shared / "story.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return tell(shared / "story")


@pytest.fixture(scope="package")
def worlds(services: Services, story: Story) -> Callable[[str], World]:
    """The world on each store, built on first use.

    On SQLite archives are read by metadata chunks; on PostgreSQL the engine is a script that records its calls, so
    that archives are read from its listing. All tests apply to both.
    """
    built: dict[str, World] = {}

    def of(store: str) -> World:
        if store not in built:
            running = by_chunks(services) if store == "sqlite" else services.get(store)
            built[store] = build(running, story)
        return built[store]

    return of


def by_chunks(services: Services, **environment: str) -> Running:
    return services.new(HOLDFAST_BORG1=str(warm_program(ENGINES["1.4"])), **environment)


@pytest.fixture(params=["sqlite", "postgresql"])
def world(request: pytest.FixtureRequest, worlds: Callable[[str], World]) -> World:
    return worlds(request.param)


@pytest.fixture
def listed_world(worlds: Callable[[str], World]) -> World:
    """The world whose engine calls are recorded."""
    return worlds("postgresql")
