"""What schedules bring to the service."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from fastapi import FastAPI
from sqlalchemy.orm import Session

from holdfast.kit import clock
from holdfast.kit.supervisor import Supervisor
from holdfast.operations.kinds import Registry
from holdfast.operations.models import OutboxEntry
from holdfast.operations.readers import Reader
from holdfast.schedules import routes, store
from holdfast.schedules.running import ended, once, settle
from holdfast.schedules.running.tick import Tick
from holdfast.settings import Settings
from holdfast.storage.session import Database

ROUTERS = routes.ROUTERS


@dataclass(frozen=True, slots=True)
class Schedules:
    """What routes and the tick share."""

    settings: Settings
    database: Database
    registry: Registry
    tick: Tick

    @property
    def readers(self) -> tuple[Reader, ...]:
        def finish(session: Session, entries: Sequence[OutboxEntry]) -> None:
            once.finish(session, self.registry, entries)

        return (
            Reader("schedules", settle.handle, frozenset({settle.TOPIC})),
            Reader("schedules-once", finish, frozenset({ended.TOPIC})),
        )

    def start(self) -> None:
        self.tick.start()

    def tidy(self) -> None:
        """Forget runs that ended long ago."""
        with self.database.writing() as session:
            store.forget_old(session, clock.now() - timedelta(days=self.settings.schedule_history_days))


def build(settings: Settings, database: Database, registry: Registry, supervisor: Supervisor) -> Schedules:
    return Schedules(settings, database, registry, Tick(database, registry, supervisor))


def install(app: FastAPI, schedules: Schedules) -> None:
    app.state.schedules = schedules
