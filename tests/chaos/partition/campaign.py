"""Many rounds, and a one-line summary of what was found."""

import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.partition.partitioned_round import PartitionedRound
from tests.chaos.partition.plan import LONG, Size
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


def campaign(
    seeds: Iterable[int], folder: Path, tell: Callable[[str], None], *, size: Size = LONG, worlds: int = 1
) -> Tally:
    """Play the rounds of these seeds in several worlds in parallel: a round spends most of its time waiting."""
    whole, every = Tally(), list(seeds)
    guard = threading.Lock()
    shares = [share for number in range(worlds) if (share := every[number::worlds])]

    def play(share: Sequence[int]) -> None:
        for first in range(0, len(share), ROUNDS_PER_WORLD):
            mine = share[first : first + ROUNDS_PER_WORLD]
            place = folder / f"world-{mine[0]}"
            with PartitionedWorld(place) as world:
                rounds = [_played(PartitionedRound(world, seed, size), tell) for seed in mine]
                comments = world.site.archive_comments()
                with guard:
                    wrong = [one.seed for one in rounds if _count(one, comments, whole, tell)]
            if not wrong:
                shutil.rmtree(place)

    with ThreadPoolExecutor(max_workers=worlds) as threads:
        for _ in threads.map(play, shares):
            pass
    return whole


def _played(one: PartitionedRound, tell: Callable[[str], None]) -> PartitionedRound:
    began = time.monotonic()
    try:
        one.run()
    except AssertionError as error:
        one.broken_off = str(error)
    tell(f"seed {one.seed}: played in {time.monotonic() - began:.1f} s")
    return one


def _count(one: PartitionedRound, comments: list[str], tally: Tally, tell: Callable[[str], None]) -> bool:
    """Verify a round, given the comments of all archives; return whether something was wrong."""
    found = [f"the round did not come to its end: {one.broken_off}"] if one.broken_off else verify(one, comments)
    tally.rounds += 1
    tally.jobs += len(one.jobs)
    tally.statuses.update(ended["status"] for ended in one.ended.values())
    tally.fates.update(one.fates)
    tally.findings += found
    if found:
        tally.failed_seeds.append(one.seed)
        tell("\n".join([f"seed {one.seed}: WRONG, everything is kept in {one.world.folder}", *found, *one.told]))
    return bool(found)
