"""A seeded part of the campaign of bad networks. `python -m tests.chaos.partition -n 1000` plays the long one."""

from pathlib import Path

import pytest

from tests.chaos.partition.campaign import campaign
from tests.chaos.partition.plan import LONG, SHORT, plan

ROUNDS = 3
"""`make chaos` plays more rounds, and longer ones."""
WORLDS = 4
FIRST_SEED = 2026


@pytest.mark.chaos
def test_bad_networks_and_kills_lose_duplicate_and_falsify_nothing(tmp_path: Path) -> None:
    told: list[str] = []

    seeds = range(FIRST_SEED, FIRST_SEED + ROUNDS)
    tally = campaign(seeds, tmp_path / "worlds", told.append, size=SHORT, worlds=WORLDS)

    assert not tally.findings, "\n".join(told)
    assert (tally.rounds, tally.jobs) == (ROUNDS, ROUNDS * SHORT.jobs)


def test_a_seed_always_gives_the_same_plan_and_another_seed_a_different_one() -> None:
    assert plan(7) == plan(7)
    assert plan(7) != plan(8)
    assert len(plan(7, SHORT).events) < len(plan(7, LONG).events)
    assert {plan(seed).skew for seed in range(50)} == {0.0, 3600.0, -3600.0}
