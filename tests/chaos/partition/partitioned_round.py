"""One round: jobs start, the network and the processes are struck, then everything is restored and every job ends."""

import contextlib
import os
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.partition.plan import LONG, Event, Size, plan
from tests.chaos.partition.world import PartitionedWorld
from tests.support.service import wait_until

SECONDS_TO_SETTLE = 180.0


@dataclass
class PartitionedRound:
    world: PartitionedWorld
    seed: int
    size: Size = LONG
    jobs: dict[int, int] = field(default_factory=dict)
    """The operation of each job of the plan."""
    struck: dict[int, int] = field(default_factory=dict)
    """How often a job's engine or shim was killed."""
    cancelled: set[int] = field(default_factory=set)
    told: list[str] = field(default_factory=list)
    ended: dict[int, dict[str, Any]] = field(default_factory=dict)
    fates: Counter[str] = field(default_factory=Counter)
    """How many requests met each fate."""
    broken_off: str = ""
    """Why the round was aborted."""

    def run(self) -> None:
        drawn = plan(self.seed, self.size)
        self.world.begin_round(self.seed, drawn.fault, drawn.skew)
        began = time.monotonic()
        pending = sorted([*drawn.events, *_returns(drawn.events)], key=lambda event: event.at)
        for event in pending:
            time.sleep(max(0.0, began + event.at - time.monotonic()))
            self.told.append(f"{time.monotonic() - began:6.2f} {event.action} {event.number} {event.pace}")
            getattr(self, f"_{event.action}")(event)
        self._settle()

    # --- events -----------------------------------------------------------------------------------------------------

    def _start(self, event: Event) -> None:
        self._service_back(event)
        self.jobs[event.number] = self.world.start_backup(event.pace)

    def _cancel(self, event: Event) -> None:
        if event.number in self.jobs and self.world.service_is_up():
            self.cancelled.add(event.number)
            self.world.cancel(self.jobs[event.number])

    def _nothing(self, event: Event) -> None:
        pass

    def _network(self, event: Event) -> None:
        self.world.weather.is_down = True

    def _network_back(self, event: Event) -> None:
        self.world.weather.is_down = False

    def _agent(self, event: Event) -> None:
        if self.world.agent.is_running():
            self.world.agent.kill()

    def _agent_back(self, event: Event) -> None:
        if not self.world.agent.is_running():
            self.world.start_agent()

    def _service(self, event: Event) -> None:
        if self.world.service_is_up():
            self.world.service.kill()

    def _service_back(self, event: Event) -> None:
        if not self.world.service_is_up():
            self.world.service.restart()

    def _shim(self, event: Event) -> None:
        self._kill(event.number, self.world.shims(self.jobs.get(event.number, 0)), group=False)

    def _engine(self, event: Event) -> None:
        self._kill(event.number, self.world.engines(self.jobs.get(event.number, 0)), group=True)

    def _kill(self, number: int, pids: list[int], *, group: bool) -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                (os.killpg if group else os.kill)(pid, signal.SIGKILL)
                self.struck[number] = self.struck.get(number, 0) + 1

    # --- the end ----------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        self.world.heal()
        for number, job in self.jobs.items():
            self.ended[number] = self.world.wait_for_end(job, SECONDS_TO_SETTLE)
        self.fates.update(self.world.weather.fates)
        wait_until(self.world.agent_has_let_go, pause=0.05, what="the agent lets go of all jobs")


def _returns(events: tuple[Event, ...]) -> list[Event]:
    """Everything that was taken down comes back."""
    taken = ("agent", "service", "network")
    return [
        Event(event.at + event.seconds, f"{event.action}_back", event.number)
        for event in events
        if event.action in taken
    ]
