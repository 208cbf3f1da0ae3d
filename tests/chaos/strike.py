"""Kills the processes that the plan names, by process id, if they exist at that instant."""

import contextlib
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.chaos.world import Victim, World


@dataclass
class Strikes:
    """The hits so far. `disturbed` counts, per operation, the hits that may have cut off an engine run."""

    kills: int = 0
    disturbed: dict[int, int] = field(default_factory=dict)

    def kill(self, world: World, target: str, number: int) -> str:
        """Kill the target; return what was hit, for the list of events."""
        if target in world.services:
            return self._service(world, target)
        if target == "everything":
            hit = [self._service(world, name) for name in world.services]
            victims = [*world.shims(), *world.engines(), *world.engine_children()]
            return ", ".join([*hit, *(self._hit(victim, "all") for victim in victims)])
        return self._part(world, target, number)

    def _part(self, world: World, target: str, number: int) -> str:
        match target:
            case "shim":
                return self._one_of(world.shims(), number)
            case "engine":
                return self._one_of(world.engines(), number)
            case "engine child":
                return self._one_of(world.engine_children(), number)
            case "engine group":
                return self._one_of(world.engines(), number, group=True)
            case "engine ended":
                return self._one_of(world.engines(), number, signal.SIGTERM, group=True)
            case "shim and engine":
                hit = self._one_of(world.shims(), number)
                return f"{hit}, {self._one_of(world.engines(), number, group=True)}"
            case "service and shim":
                name = list(world.services)[number % len(world.services)]
                hit = self._service(world, name)
                return f"{hit}, {self._one_of(world.shims(), number)}"
        raise ValueError(target)

    def _service(self, world: World, name: str) -> str:
        if not world.is_up(name):
            return f"{name} is down"
        world.services[name].kill()
        self.kills += 1
        return name

    def _one_of(
        self,
        victims: Sequence[Victim],
        number: int,
        how: signal.Signals = signal.SIGKILL,
        *,
        group: bool = False,
    ) -> str:
        if not victims:
            return "nothing there"
        return self._hit(victims[number % len(victims)], "group" if group else "process", how, group=group)

    def _hit(self, victim: Victim, word: str, how: signal.Signals = signal.SIGKILL, *, group: bool = False) -> str:
        with contextlib.suppress(ProcessLookupError):
            if group and victim.is_group_leader():
                os.killpg(victim.pid, how)
            else:
                os.kill(victim.pid, how)
            self.kills += 1
            self.disturbed[victim.operation_id] = self.disturbed.get(victim.operation_id, 0) + 1
            return f"{word} {victim.pid} of operation {victim.operation_id} by {how.name}"
        return f"{word} {victim.pid} was gone"
