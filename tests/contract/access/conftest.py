from collections.abc import Iterator
from pathlib import Path

import pytest
from argon2 import PasswordHasher

from holdfast.access import passwords
from holdfast.settings import Settings
from holdfast.storage.session import Database
from tests.contract.access.application import Service
from tests.support.stores import a_store


@pytest.fixture(autouse=True)
def cheap_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same algorithm at its lowest cost, because these tests hash hundreds of passwords."""
    monkeypatch.setattr(passwords, "HASHER", PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
    passwords._hash_of_nobody.cache_clear()


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    with a_store(request.param, tmp_path) as opened:
        yield opened


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path / "data")


@pytest.fixture
def service(database: Database, settings: Settings) -> Iterator[Service]:
    running = Service(database, settings)
    yield running
    running.access.close()
