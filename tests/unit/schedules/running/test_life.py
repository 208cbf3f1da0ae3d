"""Random lives of schedules on a simulated clock: every due time gets the outcome that the model predicts."""

import random
from dataclasses import dataclass
from datetime import datetime, time, timedelta

import pytest

from holdfast.operations.status import Status
from holdfast.schedules import edit
from holdfast.schedules.models import Reason, Schedule
from tests.unit.schedules.running.life_model import Life, Pattern
from tests.unit.schedules.running.world import BEGIN, World

PATTERNS = tuple(Pattern(hours, minute) for hours in (1, 2, 6, 12, 24) for minute in (0, 30))
WINDOWS = (None, None, (time(1), time(5)), (time(8, 30), time(20)))


@dataclass
class Played:
    schedule: int
    repository: int
    agent: int | None
    model: Life


class Stage:
    """The product and its model, side by side."""

    def __init__(self, world: World, seed: int) -> None:
        self.world, self.chance = world, random.Random(seed)
        self.paused = False
        self.last_tick = BEGIN
        self.lives = [self._life() for _ in range(4)]
        world.tick(BEGIN)

    def _life(self) -> Played:
        pattern, window = self.chance.choice(PATTERNS), self.chance.choice(WINDOWS)
        catches_up, queues = self.chance.random() < 0.6, self.chance.random() < 0.5
        agent = self.world.agent() if self.chance.random() < 0.6 else None
        place = {"execution_target": "agent", "agent_machine_id": agent} if agent else {}
        repository = self.world.repository(**place)
        windows = [{"from": f"{window[0]:%H:%M}", "to": f"{window[1]:%H:%M}"}] if window else []
        schedule = self.world.schedule(
            repository,
            cron_expression=pattern.cron,
            windows=windows,
            catch_up="once" if catches_up else "skip",
            overlap="queue" if queues else "skip",
            retries=0,
        )
        model = Life(pattern, pattern.after(BEGIN), BEGIN, catches_up, queues, window)
        return Played(schedule, repository, agent, model)

    # --- events -------------------------------------------------------------------------------------------------------

    def step(self) -> None:
        self.chance.choices(
            [self.walk, self.sleep, self.jump, self.pause, self.snooze, self.machine, self.end, self.edit, self.enable],
            [30, 4, 1, 2, 2, 8, 14, 2, 2],
        )[0]()

    def tick(self, now: datetime) -> None:
        if now < self.last_tick - timedelta(minutes=1):
            for life in self.lives:
                life.model.went_back(now)
        self.last_tick = now
        for life in self.lives:
            life.model.tick(now, paused=self.paused)
        self.world.tick(now, self.chance.randrange(len(self.world.ticks)))

    def walk(self) -> None:
        for _ in range(self.chance.randint(1, 4)):
            self.tick(self.world.now + timedelta(minutes=self.chance.choice((1, 5, 15, 45, 120))))

    def sleep(self) -> None:
        self.tick(self.world.now + timedelta(hours=self.chance.choice((3, 20, 24 * 3, 24 * 15))))

    def jump(self) -> None:
        """The clock is wrong for a while and is then corrected."""
        right = self.world.now
        wrong = right + timedelta(days=self.chance.choice((1, 40, 400)))
        if self.chance.random() < 0.2:
            wrong = right - timedelta(hours=self.chance.choice((1, 5)))
        self.tick(wrong)
        self.end_all()
        self.tick(right + timedelta(minutes=10))

    def pause(self) -> None:
        self.paused = not self.paused
        self.world.pause(paused=self.paused)

    def snooze(self) -> None:
        life = self.chance.choice(self.lives)
        until = self.world.now + timedelta(hours=self.chance.choice((2, 30)))
        life.model.snoozed_until = until
        self.world.change(life.schedule, snoozed_until=until)

    def machine(self) -> None:
        life = self.chance.choice(self.lives)
        if life.agent is not None:
            life.model.machine(self.world.now, online=not life.model.online)
            self.world.agent_goes(life.agent, "online" if life.model.online else "offline")

    def end(self) -> None:
        self._end(self.chance.choice(self.lives))

    def end_all(self) -> None:
        for life in self.lives:
            self._end(life)

    def _end(self, life: Played) -> None:
        if life.model.running is None:
            return
        for operation in self.world.operations():
            if operation.repository_id == life.repository and operation.status in ("pending", "running"):
                bad = self.chance.random() < 0.3
                self.world.end(
                    operation.id, Status.FAILED if bad else Status.COMPLETED, "engine.disk_full" if bad else None
                )
        self.world.settle()
        life.model.run_ends(self.world.now)

    def edit(self) -> None:
        life = self.chance.choice(self.lives)
        pattern = self.chance.choice(PATTERNS)
        life.model.edit(self.world.now, pattern)
        self.world.change(
            life.schedule,
            cron_expression=pattern.cron,
            next_due_at=life.model.next_due,
            updated_at=self.world.now,
        )

    def enable(self) -> None:
        life = self.chance.choice(self.lives)
        life.model.enable(self.world.now, enabled=not life.model.enabled)
        self.world.change(
            life.schedule, enabled=life.model.enabled, next_due_at=life.model.next_due, updated_at=self.world.now
        )
        if not life.model.enabled:
            with self.world.database.writing() as session:
                schedule = session.get_one(Schedule, life.schedule)
                edit.end_waiting(session, schedule, Reason.DISABLED, self.world.now)

    # --- comparison ---------------------------------------------------------------------------------------------------

    def compare(self) -> None:
        for life in self.lives:
            found: dict[datetime, tuple[str, str | None]] = {}
            for row in self.world.rows(life.schedule):
                assert row.due_at not in found, f"{row.due_at} has two rows"
                found[row.due_at] = (row.outcome, row.reason)
            assert found == life.model.rows, (life, _differences(found, life.model.rows))


def _differences(found: dict[datetime, object], expected: dict[datetime, object]) -> list[str]:
    return [
        f"{due}: {found.get(due)} and not {expected.get(due)}"
        for due in sorted({*found, *expected})
        if found.get(due) != expected.get(due)
    ][:5]


def play(world: World, seed: int, steps: int) -> None:
    stage = Stage(world, seed)
    world.new_process()
    for number in range(steps):
        stage.step()
        if number % 10 == 0:
            stage.compare()
    stage.compare()
    assert sum(len(life.model.rows) for life in stage.lives) > steps / 2


def test_every_due_time_of_a_random_life_has_the_outcome_that_the_model_predicts(world: World) -> None:
    play(world, seed=0, steps=80)


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(1, 11))
def test_every_due_time_of_a_long_random_life_has_the_outcome_that_the_model_predicts(world: World, seed: int) -> None:
    play(world, seed, steps=400)
