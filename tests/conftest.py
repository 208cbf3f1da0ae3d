"""Which tests `make test` plays, and which only `make campaign`. docs/develop.md says the same in words."""

import os
import re
from pathlib import Path

import hypothesis
import pytest

from backup_engine.process import NICENESS_VARIABLE

HERE = Path(__file__).parent
os.environ.setdefault(NICENESS_VARIABLE, "0")  # tests wait for engines, beside whatever else the machine does

# A machine that stands still for a second proves nothing, so no profile has a deadline. The tests of `make test` are the
# same each time; the campaign asks for new examples (`--hypothesis-profile campaign`).
hypothesis.settings.register_profile("tests", deadline=None, derandomize=True, database=None)
hypothesis.settings.register_profile("campaign", deadline=None)
hypothesis.settings.load_profile("tests")

ON_ONE_STORE = (
    "attacks/access",
    "contract/access",
    "contract/archives/test_index_runs.py",
    "contract/archives/test_webdav.py",
    "contract/backup",
    "contract/archives/test_reading.py",
    "contract/maintenance",
    "contract/mirror",
    "contract/packages",
    "contract/repositories",
    "contract/restore",
    "contract/schedules",
    "contract/scripts",
    "contract/system",
)
"""Tests that are there for both stores, but about what happens around the store: on SQLite; the campaign plays PostgreSQL.

All others run on both: queries, locks and events are each store's own.
"""
WITH_ONE_SERIES = (
    "contract",
    "real/history",
    "real/maintenance/test_damage.py",
    "real/restore",
    "real/test_failures.py",
)
"""Tests that are there for both series of engine 1: `make test` plays them with the newer one, the campaign with the older.

The adapter itself, in `engine`, is tried with both.
"""
AT_LENGTH = (
    "real/archives",
    "real/machines/test_kills.py",
    "real/maintenance/test_lanes.py",
    "real/maintenance/test_prune_agreement.py",
    "real/maintenance/test_wipe_in_parts.py",
    "real/restore/test_kills.py",
    "real/services",
    "real/targets",
)
"""What needs minutes of real engines is played by the campaign alone, and so is a test with the mark `campaign`."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    known = {item.nodeid for item in items}
    for item in items:
        if _is_under(item, AT_LENGTH) or _is_second_store(item, known) or _is_older_series(item, known):
            item.add_marker(pytest.mark.campaign)


def _is_second_store(item: pytest.Item, known: set[str]) -> bool:
    return _is_under(item, ON_ONE_STORE) and _is_twin(item.nodeid, "postgresql", "sqlite", known)


def _is_older_series(item: pytest.Item, known: set[str]) -> bool:
    return _is_under(item, WITH_ONE_SERIES) and _is_twin(item.nodeid, "1.2", "1.4", known)


def _is_twin(name: str, word: str, other: str, known: set[str]) -> bool:
    """Whether the word is a parameter of the test, and the same test is there with the other word."""
    file, _, parameters = name.partition("[")
    twin, count = re.subn(rf"(?<![\w.]){re.escape(word)}(?![\w.])", other, parameters, count=1)
    return count == 1 and f"{file}[{twin}" in known


def _is_under(item: pytest.Item, places: tuple[str, ...]) -> bool:
    return re.match(rf"tests/({'|'.join(places)})(/|::)", item.nodeid) is not None
