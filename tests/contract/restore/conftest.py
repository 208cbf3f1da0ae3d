from pathlib import Path

import pytest

from tests.contract.restore.known import Known
from tests.support.engines import ENGINE_2
from tests.support.running import Finished, Running, Services


@pytest.fixture(scope="package")
def knowns(services: Services) -> dict[str, Known]:
    del services
    return {}


@pytest.fixture
def known(running: Running, knowns: dict[str, Known]) -> Known:
    """An archive that tests restore from and must not change: on SQLite of engine 1, on PostgreSQL of engine 2."""
    store = running.process.database_url
    if str(store) not in knowns:
        knowns[str(store)] = Known(running, of_engine_2(running) if store and ENGINE_2 else None)
    return knowns[str(store)]


def of_engine_2(running: Running) -> Finished:
    repository = running.new_repository(engine_version=2, encryption="aes256-ocb")
    job_id = running.admin.start_backup(repository)
    assert running.admin.wait_for_end(job_id)["status"] == "completed"
    return Finished(repository, job_id)


@pytest.fixture
def destination(tmp_path: Path) -> Path:
    return tmp_path / "destination"
