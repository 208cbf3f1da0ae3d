from pathlib import Path

import pytest

HERE = Path(__file__).parent
AT_LENGTH = (
    "archives",
    "machines/test_kills.py",
    "maintenance/test_lanes.py",
    "maintenance/test_prune_agreement.py",
    "maintenance/test_wipe_in_parts.py",
    "restore/test_kills.py",
    "targets",
)
OF_THE_NEWER_SERIES_ONLY = ("history", "maintenance/test_damage.py", "restore", "test_failures.py")
"""Long ones that both series pass alike: `make test` plays them with the newer one."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs minutes of real engines is played by `make campaign`: `make test` has twenty in all."""
    for item in items:
        if not item.path.is_relative_to(HERE):
            continue
        is_older = "1.2" in getattr(item, "callspec", _NoParameters).id.split("-")
        if any(item.path.is_relative_to(HERE / name) for name in AT_LENGTH) or (
            is_older and any(item.path.is_relative_to(HERE / name) for name in OF_THE_NEWER_SERIES_ONLY)
        ):
            item.add_marker(pytest.mark.campaign)


class _NoParameters:
    id = ""
