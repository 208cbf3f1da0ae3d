"""The parts of the service that schedules contribute."""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial

from sqlalchemy.orm import Session

from holdfast.agents.gateway import GATEWAY
from holdfast.api.dependencies import DATABASE, SETTINGS, SUPERVISOR
from holdfast.api.parts import Parts
from holdfast.kit import clock
from holdfast.operations.kinds import REGISTRY
from holdfast.operations.manifest import Feature, Task, When
from holdfast.operations.models import OutboxEntry
from holdfast.operations.readers import Reader
from holdfast.operations.step_rules import SCRIPT_USES, ScriptUse
from holdfast.repositories.cadence import CADENCE, LAST_TICK
from holdfast.repositories.overdue import CONSTANT_RULES, OVERDUE_RULES
from holdfast.schedules import routes, store
from holdfast.schedules.overdue_rules import ScheduleRules
from holdfast.schedules.running import final_states, once_scripts, run_results
from holdfast.schedules.running.thresholds import ScheduleCadence
from holdfast.schedules.running.tick import TICK, LastTick, Tick
from holdfast.settings import Settings
from holdfast.storage.session import Database


def script_uses(session: Session) -> list[ScriptUse]:
    return [ScriptUse(found.id, found.name, step) for found, step in store.script_steps(session)]


def tidy(database: Database, settings: Settings) -> None:
    """Delete runs that ended long ago."""
    with database.writing() as session:
        store.forget_old(session, clock.now() - timedelta(days=settings.schedule_history_days))


def _readers(parts: Parts) -> tuple[Reader, ...]:
    def finish(session: Session, entries: Sequence[OutboxEntry]) -> None:
        once_scripts.finish(session, parts[REGISTRY], entries)

    return (
        Reader("schedules", run_results.handle, frozenset({run_results.TOPIC}), ends_only=True),
        Reader("schedules-once", finish, frozenset({final_states.TOPIC})),
    )


def _tasks(parts: Parts) -> tuple[Task, ...]:
    return (
        Task(When.START, parts[TICK].start, "runner"),
        Task(When.TIDY, partial(tidy, parts[DATABASE], parts[SETTINGS])),
    )


FEATURE = Feature(
    name="schedules",
    routers=routes.ROUTERS,
    provides=(
        TICK.made_by(lambda parts: Tick(parts[DATABASE], parts[REGISTRY], parts[SUPERVISOR])),
        LAST_TICK.made_by(lambda parts: LastTick(parts[DATABASE])),
        CADENCE.given(ScheduleCadence()),
        OVERDUE_RULES.made_by(lambda parts: ScheduleRules(parts[CONSTANT_RULES])),
        SCRIPT_USES.given(script_uses),
    ),
    readers=_readers,
    tasks=_tasks,
    connect=lambda parts: parts[GATEWAY].fleet.on_online.append(parts[TICK].agents_came_online),
)
