"""A prune removes nothing if its plan names an archive of another series, or does not follow the policy."""

from collections.abc import Callable
from typing import Any

import pytest

from backup_engine.command import Command
from backup_engine.events import Event, LogMessage
from backup_jobs.bodies import BODIES, attempt
from backup_jobs.endings import Completed, Ended, Failed
from backup_jobs.host import Step
from backup_protocol import JobKind, PruneBlock
from tests.support.scripted_host import ScriptedHost, work_on

NAMES = "home-[0-9]{4}"


class PlanningHost(ScriptedHost):
    """Its engine plans to keep one archive and to remove another."""

    def __init__(self, keep: str, prune: str, times: tuple[str, str] = ("2026-11-15", "2026-11-15")) -> None:
        super().__init__({})
        lines = (f"Keeping archive (rule: daily #1): {keep}", f"Would prune: {prune}")
        self._planned = [
            f"{line} Sun, {day} 00:25:08 [{'a' * 63}{number}]"
            for number, (line, day) in enumerate(zip(lines, times, strict=True))
        ]

    def step(
        self, name: str, command: Command, *, on_event: Callable[[Event], None] | None = None, **more: Any
    ) -> Step:
        for line in self._planned if on_event is not None else ():
            on_event(LogMessage("INFO", "borg.output.list", None, line))
        return super().step(name, command, on_event=on_event, **more)


def pruned(host: ScriptedHost, names: str | None) -> Ended:
    block = PruneBlock(policy={"keep_daily": 1}, glob="home-*", names=names)
    return attempt(BODIES[JobKind.REPOSITORY_PRUNE], work_on(host, block))


@pytest.mark.parametrize(("keep", "prune"), [("home-2026", "home-db"), ("home-old-2026", "home-2025")])
def test_a_plan_that_names_an_archive_of_another_series_is_never_executed(keep: str, prune: str) -> None:
    host = PlanningHost(keep, prune)
    ended = pruned(host, NAMES)
    assert isinstance(ended, Failed)
    assert ended.error_key == "prune.series_ambiguous"
    assert host.steps == ["plan"]


@pytest.mark.parametrize(("prune", "names"), [("home-2025", NAMES), ("home-db", None)])
def test_a_plan_within_the_series_or_without_a_series_is_executed(prune: str, names: str | None) -> None:
    host = PlanningHost("home-2026", prune)
    ended = pruned(host, names)
    assert isinstance(ended, Completed)
    assert host.steps == ["plan", "prune"]


def test_a_plan_that_deviates_from_the_policy_is_never_executed() -> None:
    host = PlanningHost("home-2026", "home-2025", times=("2026-11-14", "2026-11-15"))
    ended = pruned(host, NAMES)
    assert isinstance(ended, Failed)
    assert ended.error_key == "prune.rules_disagree"
    assert host.steps == ["plan"]
