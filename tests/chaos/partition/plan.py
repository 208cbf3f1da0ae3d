"""What a round does and when, drawn from its seed alone."""

import random
from dataclasses import dataclass

PACES = ("quick", "exec", "around")
FAULTS = (0.0, 0.1, 0.3, 0.6)
SKEWS = (0.0, 3600.0, -3600.0)
STRIKES = ("agent", "shim", "engine", "service", "network", "network", "cancel", "nothing")


@dataclass(frozen=True, slots=True)
class Size:
    """How much happens in a round."""

    jobs: int
    strikes: tuple[int, int]
    """The minimum and the maximum."""
    seconds: float
    away: float
    """The longest time that something stays down."""


LONG = Size(jobs=3, strikes=(2, 4), seconds=8.0, away=3.0)
SHORT = Size(jobs=1, strikes=(1, 3), seconds=2.5, away=1.5)


@dataclass(frozen=True, slots=True)
class Event:
    at: float
    action: str
    number: int = 0
    """The number of the job that is started or struck."""
    pace: str = ""
    seconds: float = 0.0
    """How long the network is down, or a killed program stays down."""


@dataclass(frozen=True, slots=True)
class Plan:
    fault: float
    skew: float
    events: tuple[Event, ...]


def plan(seed: int, size: Size = LONG) -> Plan:
    chance = random.Random(seed)
    starts = size.seconds / 2 if size.jobs > 1 else 0.0
    events = [Event(chance.uniform(0, starts), "start", number, chance.choice(PACES)) for number in range(size.jobs)]
    for _ in range(chance.randint(*size.strikes)):
        action = chance.choice(STRIKES)
        at, away = chance.uniform(size.seconds / 8, size.seconds), chance.uniform(0.2, size.away)
        events.append(Event(at, action, chance.randrange(size.jobs), seconds=away))
    ordered = tuple(sorted(events, key=lambda event: event.at))
    return Plan(chance.choice(FAULTS), chance.choice(SKEWS), ordered)
