"""The spool of a test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from backup_engine.process import (
    Spool,
)
from tests.real.shim.runs import end_all_of


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    spool = Spool(tmp_path / "spool" / "1" / "create")
    yield spool
    end_all_of(spool)
