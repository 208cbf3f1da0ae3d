from pathlib import Path

import pytest

from tests.contract.engine2.world import World, build
from tests.support.engines import ENGINE_2
from tests.support.running import Running, Services, recording_engine

HERE = Path(__file__).parent
collect_ignore_glob = [] if ENGINE_2 else ["test_*.py"]


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Engine 2 as the service finds it; without its self-test, which costs as much as many a command."""
    assert ENGINE_2 is not None
    script = recording_engine(tmp_path_factory.mktemp("engine-2"), ENGINE_2)
    script.write_text(script.read_text().replace("exec ", "export BORG_SELFTEST=disabled\nexec "))
    return script


@pytest.fixture(scope="session")
def running(services: Services, program: Path) -> Running:
    """A service that has both majors of the engine."""
    return services.new(HOLDFAST_BORG2=str(program))


@pytest.fixture(scope="session")
def world(running: Running) -> World:
    """A repository of engine 2 with two indexed archives. Tests read it, and change nothing in it."""
    return build(running)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first test pays for the service and the world, also on a machine that is busy with other things."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.timeout(600))
