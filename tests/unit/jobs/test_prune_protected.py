"""A prune of a repository with protected archives removes the others of its plan by name, and only those."""

from collections.abc import Callable
from typing import Any

import pytest

from backup_engine.command import Command
from backup_engine.events import Event, LogMessage
from backup_jobs.bodies import BODIES, attempt
from backup_jobs.endings import Completed, Ended, Failed, Stopped, TryAgain
from backup_jobs.host import Step
from backup_protocol import JobKind, PruneBlock
from tests.support.scripted_host import INTERRUPTED, ScriptedHost, id_of, listing, work_on

PLAN = {
    "new": "Keeping archive (rule: secondly #1): new Sun, 2026-11-15 00:25:08",
    "old": "Would prune: old Sat, 2026-11-14 00:25:08",
    "older": "Would prune: older Fri, 2026-11-13 00:25:08",
    "oldest": "Would prune: oldest Thu, 2026-11-12 00:25:08",
}


class PlanningHost(ScriptedHost):
    """Its engine plans to keep the newest of four archives."""

    def __init__(self, script: dict[str, Any], **more: Any) -> None:
        super().__init__(script, **more)
        self.commands: dict[str, Command] = {}

    def step(
        self, name: str, command: Command, *, on_event: Callable[[Event], None] | None = None, **more: Any
    ) -> Step:
        self.commands[name] = command
        if name == "plan" and on_event is not None:
            for archive, line in PLAN.items():
                on_event(LogMessage("INFO", "borg.output.list", None, f"{line} [{id_of(archive)}]"))
        return super().step(name, command, on_event=on_event, **more)


def pruned(host: ScriptedHost, *protected: str) -> Ended:
    block = PruneBlock(policy={"keep_last": 1}, protected=tuple(map(id_of, protected)))
    return attempt(BODIES[JobKind.REPOSITORY_PRUNE], work_on(host, block))


def names(archives: Any) -> list[str]:
    return [one["archive"] for one in archives]


def test_unprotected_archives_of_the_plan_are_removed_by_name() -> None:
    host = PlanningHost({"evidence": listing("new", "older")})

    ended = pruned(host, "older")

    assert isinstance(ended, Completed)
    assert host.steps == ["plan", "prune-1", "evidence-1"]
    assert host.commands["prune-1"].argv[-2:] == ("/srv/repository::old", "oldest")
    assert names(ended.details["prune"]) == ["old", "oldest"]
    assert {one["archive"]: one["rule"] for one in ended.details["keep"]} == {"new": "secondly", "older": "protected"}


def test_a_plan_of_only_protected_archives_removes_nothing() -> None:
    host = PlanningHost({})

    ended = pruned(host, "old", "older", "oldest")

    assert isinstance(ended, Completed)
    assert host.steps == ["plan"]
    assert (ended.details["kept_count"], ended.details["pruned_count"]) == (4, 0)


@pytest.mark.parametrize(("there", "kind"), [(("new", "older"), Completed), (("new", "older", "oldest"), TryAgain)])
def test_after_an_unknown_end_the_repository_shows_what_was_removed(there: tuple[str, ...], kind: type[Any]) -> None:
    host = PlanningHost({"prune-1": INTERRUPTED, "evidence": listing(*there)})

    ended = pruned(host, "older")

    assert isinstance(ended, kind)
    gone = [name for name in ("old", "oldest") if name not in there]
    assert names(ended.details["prune"]) == gone


def test_archives_left_in_spite_of_reported_success_are_a_failure() -> None:
    ended = pruned(PlanningHost({"evidence": listing("new", "old", "older")}), "older")

    assert isinstance(ended, Failed)
    assert (ended.error_key, names(ended.details["prune"])) == ("engine.failed", ["oldest"])


def test_a_cancelled_prune_reports_what_is_gone() -> None:
    class CancelledInBetween(PlanningHost):
        def step(self, name: str, command: Command, **more: Any) -> Step:
            self.cancelled = name.startswith("prune")
            return super().step(name, command, **more)

    ended = pruned(CancelledInBetween({"evidence": listing("new", "old", "older", "oldest")}), "older")

    assert isinstance(ended, Stopped)
    assert ended.details["pruned_count"] == 0
