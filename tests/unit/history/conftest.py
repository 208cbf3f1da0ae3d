"""An empty index for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.archives.history.index import HistoryIndex
from holdfast.archives.history.sqlite import SqliteStore


@pytest.fixture
def index(tmp_path: Path) -> Iterator[HistoryIndex]:
    opened = HistoryIndex(SqliteStore.create(tmp_path / "history.db"))
    yield opened
    opened.close()
