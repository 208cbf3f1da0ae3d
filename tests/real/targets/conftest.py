"""Only one cell is open at a time: its tests run together, and the next cell closes it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.targets.cells import Cell
from tests.real.targets.table import CELLS

HERE = Path(__file__).parent


class OneCell:
    def __init__(self, folders: pytest.TempPathFactory) -> None:
        self._folders = folders
        self._open: Cell | None = None

    def get(self, engine: str, target: str) -> Cell:
        if self._open is None or (self._open.engine, self._open.target) != (engine, target):
            self.close()
            self._open = Cell(engine, target, self._folders.mktemp(f"cell-{engine}-{target}")).open()
        return self._open

    def close(self) -> None:
        if self._open is not None:
            self._open, closing = None, self._open
            closing.close()


@pytest.fixture(scope="package")
def one_cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneCell]:
    keeper = OneCell(tmp_path_factory)
    yield keeper
    keeper.close()


@pytest.fixture
def cell(request: pytest.FixtureRequest, one_cell: OneCell) -> Cell:
    return one_cell.get(*request.param)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group the tests by cell, in the order in which they are written.

    The first test of each cell starts its service.
    """
    places = [number for number, item in enumerate(items) if item.path.is_relative_to(HERE)]
    mine = sorted((items[number] for number in places), key=_cell)
    for number, item in zip(places, mine, strict=True):
        items[number] = item


def _cell(item: pytest.Item) -> int:
    return CELLS.index(item.callspec.params["cell"])  # type: ignore[attr-defined]
