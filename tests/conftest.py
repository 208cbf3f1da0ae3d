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
    "contract/archives",
    "contract/backup",
    "contract/maintenance",
    "contract/mirror",
    "contract/notifications",
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
WITH_ONE_MAJOR = (
    "attacks/identity",
    "attacks/places",
    "attacks/test_agent_restores_count.py",
    "attacks/test_hostile_downloads.py",
    "real/dumps",
    "real/schedules",
)
"""Tests that are there for both majors: `make test` plays them with engine 1, the campaign with engine 2.

The contract of engine 2 is in `contract/engine2`, its adapter in `engine`: those are played each time.
"""
AT_LENGTH = (
    "attacks/identity/test_remotes.py",
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

TWINS = {
    ON_ONE_STORE: ("postgresql", "sqlite"),
    WITH_ONE_SERIES: ("1.2", "1.4"),
    WITH_ONE_MAJOR: ("2", "1"),
}
"""For each list the word of the tests that only the campaign plays, and the word of those that `make test` plays."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    known = {item.nodeid for item in items}
    for item in items:
        if _is_under(item, AT_LENGTH) or any(
            _is_under(item, places) and _is_twin(item.nodeid, *words, known) for places, words in TWINS.items()
        ):
            item.add_marker(pytest.mark.campaign)


def _is_twin(name: str, word: str, other: str, known: set[str]) -> bool:
    """Whether the word is a parameter of the test, and the same test is there with the other word."""
    file, _, parameters = name.partition("[")
    twin, count = re.subn(rf"(?<![\w.]){re.escape(word)}(?![\w.])", other, parameters, count=1)
    return count == 1 and f"{file}[{twin}" in known


def _is_under(item: pytest.Item, places: tuple[str, ...]) -> bool:
    return re.match(rf"tests/({'|'.join(places)})(/|::)", item.nodeid) is not None
