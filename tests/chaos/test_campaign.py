"""A seeded part of the kill campaign. `make chaos N=500` plays the long one."""

from pathlib import Path

import pytest

from tests.chaos.campaign import campaign, variant_of
from tests.chaos.plan import plan
from tests.chaos.world import VARIANTS, Variant

SECONDS = 12.0
"""For each variant; at least one round is played, however slow the machine is."""
FIRST_SEED = 2026
VARIANTS_PLAYED = [variant for variant in VARIANTS if variant.series == max(one.series for one in VARIANTS)]


@pytest.mark.chaos
@pytest.mark.parametrize("variant", VARIANTS_PLAYED, ids=str)
def test_kills_at_random_instants_lose_duplicate_and_falsify_nothing(variant: Variant, tmp_path: Path) -> None:
    told: list[str] = []
    seeds = [seed for seed in range(FIRST_SEED, FIRST_SEED + 100) if variant_of(seed) == variant]

    tally = campaign(seeds, tmp_path / "worlds", told.append, seconds=SECONDS)

    assert not tally.findings.all(), "\n".join(told)
    assert tally.rounds >= 1
    assert tally.operations >= tally.rounds


def test_a_seed_always_gives_the_same_plan_and_another_seed_a_different_one() -> None:
    services = ["api", "runner-1", "runner-2"]

    assert plan(7, services, 2) == plan(7, services, 2)
    assert plan(7, services, 2) != plan(8, services, 2)


def test_every_plan_starts_and_kills_something_and_restarts_what_it_took_down() -> None:
    for seed in range(200):
        events = plan(seed, ["service"], 2)
        actions = [event.action for event in events]
        assert "start" in actions
        assert {"kill", "stop"} & set(actions)
        taken_down = [event for event in events if event.action in ("kill", "stop") and event.target == "service"]
        assert all(any(up.action == "up" and up.at >= down.at for up in events) for down in taken_down)
