"""Dump records may come from another machine, so only complete and valid ones count."""

from typing import Any

import pytest

from backup_engine.dumps import Database
from backup_jobs.dump import _is_record, _not_consistent

DATABASE = Database("app", "mysql", "app")
RECORD: dict[str, Any] = {
    "name": "app",
    "file": "app.sql",
    "complete": True,
    "bytes": 3,
    "end_seen": True,
    "engine_gone": False,
    "exit_code": 0,
    "signal": None,
    "start_error": None,
    "sha256": "",
}


def with_tables(tables: Any, count: Any) -> dict[str, Any]:
    return {**RECORD, "inconsistent": {"tables": tables, "count": count}}


def test_a_record_may_name_tables_without_transactions() -> None:
    assert _is_record(RECORD, DATABASE)
    assert _is_record(with_tables(["old"], 1), DATABASE)
    assert _is_record(with_tables(["old"] * 10, 4000), DATABASE)
    assert ": old, older and 3 more. " in _not_consistent(with_tables(["old", "older"], 5))


@pytest.mark.parametrize(
    "found",
    [
        None,
        [],
        {},
        {"tables": ["old"]},
        {"tables": [], "count": 0},
        {"tables": ["old"], "count": 0},
        {"tables": ["old"] * 11, "count": 11},
        {"tables": [1], "count": 1},
        {"tables": "old", "count": 3},
        {"tables": ["old"], "count": "1"},
    ],
)
def test_a_record_with_an_invalid_list_of_tables_does_not_count(found: Any) -> None:
    assert not _is_record({**RECORD, "inconsistent": found}, DATABASE)
