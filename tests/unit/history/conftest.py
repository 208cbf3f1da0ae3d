"""An empty index for each test, on each store."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from psycopg_pool import ConnectionPool
from sqlalchemy.engine import make_url

from holdfast.history.index import HistoryIndex
from holdfast.history.postgres import Pool, PostgresStore
from holdfast.history.sqlite import SqliteStore
from tests.support.postgres import postgres_server

NUMBERS = count(1)


@pytest.fixture(scope="session")
def pool() -> Iterator[Pool]:
    server = postgres_server()
    url = make_url(server.create_database())
    with ConnectionPool(f"host={server.folder} user=postgres dbname={url.database}", min_size=0, max_size=12) as opened:
        yield opened


@pytest.fixture(params=["sqlite", "postgresql"])
def index(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[HistoryIndex]:
    if request.param == "sqlite":
        opened = HistoryIndex(SqliteStore.create(tmp_path / "history.db"))
        yield opened
        opened.close()
    else:
        pool = request.getfixturevalue("pool")
        opened = HistoryIndex(PostgresStore.create(pool, f"history_{next(NUMBERS)}"))
        yield opened
        opened.forget()
