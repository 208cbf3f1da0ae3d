"""A seeded part of the campaign of bad networks. `python -m tests.chaos.partition -n 1000` plays the long one."""

from pathlib import Path

import pytest

from tests.chaos.partition.campaign import campaign
from tests.chaos.partition.plan import JOBS, plan

SECONDS = 40.0
"""At least one round is played, however slow the machine is."""
FIRST_SEED = 2026


@pytest.mark.chaos
@pytest.mark.timeout(900)
def test_bad_networks_and_kills_lose_double_and_falsify_nothing(tmp_path: Path) -> None:
    told: list[str] = []

    tally = campaign(range(FIRST_SEED, FIRST_SEED + 25), tmp_path / "worlds", told.append, seconds=SECONDS)

    assert not tally.findings, "\n".join(told)
    assert tally.rounds >= 1
    assert tally.jobs == tally.rounds * JOBS


def test_a_seed_always_gives_the_same_plan_and_another_seed_another_one() -> None:
    assert plan(7) == plan(7)
    assert plan(7) != plan(8)
    assert {plan(seed).skew for seed in range(50)} == {0.0, 3600.0, -3600.0}
