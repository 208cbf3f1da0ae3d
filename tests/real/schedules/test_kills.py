"""Processes that run the tick are killed with SIGKILL at random instants: no due time is lost, none runs twice.

`HOLDFAST_SCHEDULE_KILLS` sets how many kills a campaign plays on each store.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.stores import KINDS, a_store_url

ROOT = Path(__file__).parents[3]
KILLS = int(os.environ.get("HOLDFAST_SCHEDULE_KILLS", "1000"))
AT_ONCE = 1000
"""Kills per store: the final checks take longer with each one."""


def play(kind: str, folder: Path, kills: int) -> str:
    """Runs in a separate process because it forks, and the test process has threads."""
    with a_store_url(kind, folder) as url:
        ended = subprocess.run(
            [sys.executable, "-m", "tests.support.schedule_kills", url, str(kills)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    assert ended.returncode == 0, ended.stdout + ended.stderr[-4000:]
    return ended.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_kills_around_the_tick_neither_lose_nor_repeat_a_due_time(kind: str, tmp_path: Path) -> None:
    assert "20 kills, seed" in play(kind, tmp_path, 20)


@pytest.mark.campaign
@pytest.mark.parametrize("kind", KINDS)
def test_a_thousand_kills_around_the_tick_neither_lose_nor_repeat_a_due_time(kind: str, tmp_path: Path) -> None:
    for first in range(0, KILLS, AT_ONCE):
        kills, folder = min(AT_ONCE, KILLS - first), tmp_path / str(first)
        folder.mkdir()
        assert f"{kills} kills, seed" in play(kind, folder, kills)
