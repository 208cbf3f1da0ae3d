"""Many rounds; what was found, in one line."""

import math
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.partition.partitioned_round import PartitionedRound
from tests.chaos.partition.verify import verify
from tests.chaos.partition.world import PartitionedWorld

ROUNDS_PER_WORLD = 25
"""Repositories grow with every round; a fresh world keeps rounds quick."""


@dataclass
class Tally:
    rounds: int = 0
    jobs: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    fates: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    failed_seeds: list[int] = field(default_factory=list)

    def __str__(self) -> str:
        requests = ", ".join(f"{number} {fate}" for fate, number in self.fates.most_common())
        ends = ", ".join(f"{number} {status}" for status, number in self.statuses.most_common())
        return f"{self.rounds} rounds, {self.jobs} jobs ({ends}); requests: {requests}; {len(self.findings)} wrong"


def campaign(seeds: Iterable[int], folder: Path, tell: Callable[[str], None], *, seconds: float = math.inf) -> Tally:
    """Play the rounds of these seeds; none is begun when the time is up, but one always is."""
    tally = Tally()
    deadline = time.monotonic() + seconds
    left = list(seeds)
    while left and (not tally.rounds or time.monotonic() < deadline):
        mine, left = left[:ROUNDS_PER_WORLD], left[ROUNDS_PER_WORLD:]
        place = folder / f"world-{mine[0]}"
        with PartitionedWorld(place) as world:
            for seed in mine:
                if tally.rounds and time.monotonic() > deadline:
                    break
                _play(world, seed, tally, tell)
        if not tally.failed_seeds:
            shutil.rmtree(place)
    return tally


def _play(world: PartitionedWorld, seed: int, tally: Tally, tell: Callable[[str], None]) -> None:
    began = time.monotonic()
    played = PartitionedRound(world, seed)
    try:
        played.run()
        found = verify(played)
    except AssertionError as error:
        found = [f"the round did not come to its end: {error}"]
    tally.rounds += 1
    tally.jobs += len(played.jobs)
    tally.statuses.update(ended["status"] for ended in played.ended.values())
    tally.fates.update(world.weather.fates)
    tally.findings += found
    tell(f"round {tally.rounds} (seed {seed}): {'WRONG' if found else 'ok'}, {time.monotonic() - began:.1f} s")
    if found:
        tally.failed_seeds.append(seed)
        tell("\n".join([f"seed {seed}, everything is kept in {world.folder}", *found, *played.told]))
