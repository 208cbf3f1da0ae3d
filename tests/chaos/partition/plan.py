"""What a round does and when, from its seed alone."""

import random
from dataclasses import dataclass

JOBS = 3
PACES = ("quick", "exec", "around")
SECONDS = 8.0
FAULTS = (0.0, 0.1, 0.3, 0.6)
SKEWS = (0.0, 3600.0, -3600.0)
STRIKES = ("agent", "shim", "engine", "service", "network", "network", "cancel", "nothing")


@dataclass(frozen=True, slots=True)
class Event:
    at: float
    action: str
    number: int = 0
    """Of the job that is started or struck."""
    pace: str = ""
    seconds: float = 0.0
    """How long a network is down, or a killed program stays away."""


@dataclass(frozen=True, slots=True)
class Plan:
    fault: float
    skew: float
    events: tuple[Event, ...]


def plan(seed: int) -> Plan:
    chance = random.Random(seed)
    events = [Event(chance.uniform(0, SECONDS / 2), "start", number, chance.choice(PACES)) for number in range(JOBS)]
    for _ in range(chance.randint(2, 4)):
        action = chance.choice(STRIKES)
        events.append(
            Event(chance.uniform(1, SECONDS), action, chance.randrange(JOBS), seconds=chance.uniform(0.2, 3.0))
        )
    ordered = tuple(sorted(events, key=lambda event: event.at))
    return Plan(chance.choice(FAULTS), chance.choice(SKEWS), ordered)
