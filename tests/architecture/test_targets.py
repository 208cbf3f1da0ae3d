"""What works where: the table of the cells, its document and the tests of the cells agree."""

from pathlib import Path

from tests.real.targets.table import CELLS, KINDS, NOT_THERE, what_is_said_instead, what_works
from tests.real.targets.test_every_cell import ASKING, PLAYED

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "targets.md").read_text()


def test_the_document_shows_the_table() -> None:
    for lines in (what_works(), what_is_said_instead()):
        table = "\n".join(lines)
        assert f"\n{table}\n" in DOCUMENT, f"update the table in docs/targets.md to\n{table}"


def test_every_kind_is_tested_and_every_row_names_a_cell_and_a_kind() -> None:
    assert set(KINDS) == PLAYED
    assert {(engine, target) for engine, target, _ in NOT_THERE} <= set(CELLS)
    assert {kind for _, _, kind in NOT_THERE} == set(ASKING)
