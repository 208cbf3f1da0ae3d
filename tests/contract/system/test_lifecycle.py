"""Tasks and ticks that features declare run in order, in the processes of their role, and are reported."""

from functools import partial
from pathlib import Path
from typing import Literal

import pytest

from holdfast import composition
from holdfast.api.dependencies import SUPERVISOR
from holdfast.operations.manifest import Feature, Task, Tick, When
from tests.support.in_process import started
from tests.support.service import wait_until

Role = Literal["all", "api", "runner"]


class Recorded:
    def __init__(self) -> None:
        self.steps: list[str] = []

    def feature(self, name: str) -> Feature:
        def step(when: When, where: Literal["api", "runner"] | None = None) -> Task:
            word = f"{name} {when.name.lower()}" + (f" {where}" if where else "")
            return Task(when, partial(self.steps.append, word), where)

        tasks = (*(step(when) for when in When), step(When.START, "api"), step(When.START, "runner"))
        tick = Tick(f"{name}-tick", 0.01, partial(self.steps.append, f"{name} ticked"), "runner")
        return Feature(name=name, tasks=lambda _parts: tasks, ticks=lambda _parts: (tick,))


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    made = Recorded()
    features = (made.feature("first"), *composition.FEATURES, made.feature("second"))
    monkeypatch.setattr(composition, "FEATURES", features)
    return made


def test_features_start_in_order_and_stop_in_reverse_order(recorded: Recorded, tmp_path: Path) -> None:
    with started(tmp_path / "data"):
        wait_until(lambda: {"first ticked", "second ticked"} <= set(recorded.steps), what="both tick")

    life = [step for step in recorded.steps if "ticked" not in step]
    assert life == [
        *("first prepare", "second prepare"),
        *("first start", "first start api", "first start runner"),
        *("second start", "second start api", "second start runner"),
        *("second stop", "first stop"),
        *("second close", "first close"),
    ]


@pytest.mark.parametrize(("role", "other"), [("api", "runner"), ("runner", "api")])
def test_a_process_runs_only_the_tasks_of_its_role(recorded: Recorded, tmp_path: Path, role: Role, other: str) -> None:
    with started(tmp_path / "data", role=role) as running:
        loops = {loop.name for loop in running.service.parts[SUPERVISOR].reports()}

    assert f"first start {role}" in recorded.steps
    assert f"first start {other}" not in recorded.steps
    assert ("first-tick" in loops) == (role == "runner")
    assert ("reconcile" in loops) == ("alarms" in loops) == (role == "runner")
    assert ("events" in loops) == (role == "api")


def test_the_hourly_tick_runs_the_tidy_task_of_every_feature(
    recorded: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(composition, "TIDY_SECONDS", 0.01)
    with started(tmp_path / "data"):
        wait_until(lambda: "second tidy" in recorded.steps, what="tidied")

    assert recorded.steps.index("first tidy") < recorded.steps.index("second tidy")
