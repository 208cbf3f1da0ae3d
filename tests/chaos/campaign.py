"""Many rounds in worlds of every variant, and a one-line summary of what was found."""

import math
import shutil
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.disturbed_round import Round
from tests.chaos.verify import Findings, verify
from tests.chaos.world import VARIANTS, Variant, World

ROUNDS_PER_WORLD = 25
"""Repositories grow with every round; a fresh world keeps rounds quick."""


@dataclass
class Tally:
    rounds: int = 0
    kills: int = 0
    operations: int = 0
    findings: Findings = field(default_factory=Findings)
    failed_seeds: list[int] = field(default_factory=list)

    def add(self, played: Round, found: Findings) -> None:
        self.rounds += 1
        self.kills += played.strikes.kills
        self.operations += len(played.started)
        for word in ("lost", "doubled", "overlaps", "wrong"):
            getattr(self.findings, word).extend(getattr(found, word))
        if found.all():
            self.failed_seeds.append(played.seed)

    def __str__(self) -> str:
        found = self.findings
        return (
            f"{self.rounds} rounds, {self.kills} kills, {len(found.lost)} lost, {len(found.doubled)} doubled, "
            f"{len(found.overlaps)} overlaps, {len(found.wrong)} wrong"
        )


def variant_of(seed: int) -> Variant:
    return VARIANTS[seed % len(VARIANTS)]


def campaign(seeds: Iterable[int], folder: Path, tell: Callable[[str], None], *, seconds: float = math.inf) -> Tally:
    """Play the rounds of these seeds, grouped by variant so that they share a world, and report each.

    No round starts after the time is up.
    """
    tally = Tally()
    deadline = time.monotonic() + seconds
    left = list(seeds)
    worlds = 0
    while left and time.monotonic() < deadline:
        worlds += 1
        variant = variant_of(left[0])
        mine = [seed for seed in left if variant_of(seed) == variant][:ROUNDS_PER_WORLD]
        done = _play(mine, World(folder / f"world-{worlds}", variant), tally, tell, deadline)
        left = [seed for seed in left if seed not in done]
    return tally


def _play(seeds: list[int], world: World, tally: Tally, tell: Callable[[str], None], deadline: float) -> set[int]:
    """Play rounds in a world until one goes wrong; return the seeds that were played."""
    done: set[int] = set()
    with world:
        for seed in seeds:
            begin = time.monotonic()
            if done and begin > deadline:
                break
            played, found = play_round(world, seed)
            tally.add(played, found)
            done.add(seed)
            tell(
                f"round {tally.rounds} (seed {seed}; {world.variant}): {len(played.started)} operations, "
                f"{played.strikes.kills} kills, {'WRONG' if found.all() else 'ok'}, {time.monotonic() - begin:.1f} s"
            )
            if found.all():
                tell(report(played, found))
                return done
        tally.findings.wrong.extend(_repositories_are_whole(world))
    shutil.rmtree(world.folder)
    return done


def play_round(world: World, seed: int) -> tuple[Round, Findings]:
    played = Round(world, seed)
    played.run()
    return played, verify(played)


def report(played: Round, found: Findings) -> str:
    """Everything needed to investigate a failed round."""
    return "\n".join(
        [
            f"seed {played.seed} ({played.world.variant}), everything is kept in {played.world.folder}",
            *(f"    {sentence}" for sentence in found.all()),
            "events:",
            *(f"    {event}" for event in played.events),
            f"again with: python -m tests.chaos --seed {played.seed}",
        ]
    )


def _repositories_are_whole(world: World) -> Iterable[str]:
    """After all the kills, the engine's own check must find no errors."""
    for repository in world.repositories:
        try:
            world.ask_engine("check", repository["path"])
        except AssertionError as complaint:
            yield str(complaint)
