"""What happens in a round: drawn from its seed alone."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from tests.support.paced_engine import PACES

ENGINE_KILLS = ("shim", "engine", "engine group", "engine child", "engine ended", "shim and engine", "service and shim")
SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Event:
    """An action on a target, at a time in seconds after the start of the round."""

    at: float
    action: str
    target: str = ""
    number: int = 0

    def __str__(self) -> str:
        return f"{self.at:6.3f} s  {self.action} {self.target} {self.number}"


def plan(seed: int, services: Sequence[str], repositories: int) -> list[Event]:
    """Given a seed, return the events of its round in order."""
    chance = random.Random(seed)
    events = [
        *_starts(chance, repositories),
        *_cancels(chance),
        *_asks(chance, repositories),
        *_kills(chance, services),
    ]
    return sorted(events, key=lambda event: event.at)


def _starts(chance: random.Random, repositories: int) -> list[Event]:
    count = chance.randint(2, 5)
    return [
        Event(
            0.0 if number == 0 else chance.uniform(0.0, SECONDS * 0.7),
            "start",
            chance.choices(PACES, (3, 4, 5, 1))[0],
            chance.randrange(repositories),
        )
        for number in range(count)
    ]


def _cancels(chance: random.Random) -> list[Event]:
    return [
        Event(chance.uniform(0.1, SECONDS), "cancel", number=number) for number in range(chance.choice((0, 0, 1, 2)))
    ]


def _asks(chance: random.Random, repositories: int) -> list[Event]:
    """Requests that need the engine themselves and wait for the repository like everything else."""
    count = chance.choice((0, 0, 1, 2))
    return [Event(chance.uniform(0.0, SECONDS), "ask", number=chance.randrange(repositories)) for _ in range(count)]


def _kills(chance: random.Random, services: Sequence[str]) -> list[Event]:
    events: list[Event] = []
    for number in range(chance.randint(2, 6)):
        at = chance.uniform(0.05, SECONDS)
        kind = chance.choices(("service", "engine", "stop", "everything"), (10, 10, 2, 1))[0]
        if kind == "engine":
            events.append(Event(at, "kill", chance.choice(ENGINE_KILLS), chance.randrange(1000)))
            continue
        name = chance.choice(list(services))
        events.append(
            Event(
                at,
                {"service": "kill", "stop": "stop", "everything": "kill"}[kind],
                name if kind != "everything" else kind,
                number,
            )
        )
        events.extend(_ups(chance, at, services if kind == "everything" else [name]))
    return events


def _ups(chance: random.Random, at: float, services: Sequence[str]) -> list[Event]:
    """Restart what was killed; occasionally kill it again while it starts or recovers."""
    events = []
    for name in services:
        up = at + chance.uniform(0.0, 1.0)
        events.append(Event(up, "up", name))
        if chance.random() < 0.3:
            again = up + chance.uniform(0.2, 3.0)
            events += [Event(again, "kill", name), Event(again + chance.uniform(0.0, 0.5), "up", name)]
    return events
