"""Processes that tick are killed with SIGKILL at random instants: no due time is lost, none runs twice."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.stores import KINDS, a_store_url

ROOT = Path(__file__).parents[3]


def play(kind: str, folder: Path, kills: int) -> str:
    """In a process of its own, because it forks: the one of the tests has threads."""
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
def test_kills_around_the_tick_lose_nothing_and_double_nothing(kind: str, tmp_path: Path) -> None:
    assert "30 kills" in play(kind, tmp_path, 30)


@pytest.mark.campaign
@pytest.mark.parametrize("kind", KINDS)
def test_a_thousand_kills_around_the_tick_lose_nothing_and_double_nothing(kind: str, tmp_path: Path) -> None:
    assert "1000 kills" in play(kind, tmp_path, 1000)
