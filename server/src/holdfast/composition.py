"""Assembles the service. This is the only file that imports every part."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from importlib.metadata import version

from fastapi import FastAPI

from holdfast.access import feature as access
from holdfast.access import stored_secrets
from holdfast.activity import feature as activity
from holdfast.agents import feature as agents
from holdfast.alarms import feature as alarms
from holdfast.alarms.present import open_messages
from holdfast.api.app import Application, build_app
from holdfast.api.dependencies import DATABASE, SETTINGS, SUPERVISOR
from holdfast.api.parts import Maker, Parts
from holdfast.archives import feature as archives
from holdfast.backup import feature as backup
from holdfast.dav import feature as dav
from holdfast.downloads import feature as downloads
from holdfast.execution.engines import ENGINES, Engines
from holdfast.kit.supervisor import Supervisor
from holdfast.machines import feature as machines
from holdfast.maintenance import feature as maintenance
from holdfast.metrics import feature as metrics
from holdfast.mirror import feature as mirror
from holdfast.notifications import feature as notifications
from holdfast.notifications.reports.findings import SOURCES, Sources
from holdfast.operations import feature as operations
from holdfast.operations.kinds import REGISTRY, Registry
from holdfast.operations.manifest import Feature, Task, When, Where
from holdfast.operations.readers import READERS
from holdfast.packages import feature as packages
from holdfast.reading import feature as reading
from holdfast.repositories import feature as repositories
from holdfast.restore import feature as restore
from holdfast.runner import feature as runner
from holdfast.schedules import feature as schedules
from holdfast.schedules.running.thresholds import missed_since, next_due, targets_of
from holdfast.scripts import feature as scripts
from holdfast.settings import Settings
from holdfast.storage.session import Database
from holdfast.system import feature as system
from holdfast.web import feature as web

TIDY_SECONDS = 3600.0


def _access_tasks(parts: Parts) -> tuple[Task, ...]:
    found = parts[access.ACCESS]
    return Task(When.TIDY, found.tidy, "api"), Task(When.CLOSE, found.close)


ACCESS = Feature(
    name="access", routers=access.ROUTERS, provides=access.PROVIDES, tasks=_access_tasks, install=access.install
)
"""Defined here because access is a lower layer than the kernel, which defines what a feature is."""

FEATURES = (
    runner.FEATURE,
    agents.FEATURE,
    ACCESS,
    machines.FEATURE,
    repositories.FEATURE,
    backup.FEATURE,
    downloads.FEATURE,
    restore.FEATURE,
    maintenance.FEATURE,
    packages.FEATURE,
    scripts.FEATURE,
    mirror.FEATURE,
    notifications.FEATURE,
    schedules.FEATURE,
    alarms.FEATURE,
    metrics.FEATURE,
    archives.FEATURE,
    reading.FEATURE,
    activity.FEATURE,
    operations.FEATURE,
    system.FEATURE,
    dav.FEATURE,
    web.FEATURE,
)
"""In the order of their routes in the API document. They also start in this order."""


def register_secrets() -> None:
    """Register the secrets of all features for the key rotation."""
    for feature in FEATURES:
        for column in feature.secrets:
            stored_secrets.register(column)


def _registry(parts: Parts) -> Registry:
    kinds = [kind for feature in FEATURES for kind in feature.kinds(parts)]
    return Registry.of(kinds, [listener for feature in FEATURES for listener in feature.listeners(parts)])


SHARED: tuple[Maker, ...] = (
    SUPERVISOR.made_by(lambda _parts: Supervisor()),
    ENGINES.made_by(lambda parts: Engines(parts[SETTINGS])),
    REGISTRY.made_by(_registry),
    SOURCES.given(Sources(missed_since, next_due, open_messages, targets_of)),
)


class Service:
    """All parts of one `holdfast serve` process."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self.settings = settings
        self.database = database
        given = (SETTINGS.given(settings), DATABASE.given(database))
        provided = [maker for feature in FEATURES for maker in feature.provides]
        self.parts = Parts([*given, *SHARED, *provided])
        self.parts.make_all()
        for feature in FEATURES:
            feature.connect(self.parts)
            self.parts[READERS].register(*feature.readers(self.parts))
        self._tasks = [task for feature in FEATURES for task in feature.tasks(self.parts) if self._does(task.where)]

    def start(self) -> None:
        for task in (*self._at(When.PREPARE), *self._at(When.START)):
            task.run()
        supervisor = self.parts[SUPERVISOR]
        for tick in [tick for feature in FEATURES for tick in feature.ticks(self.parts) if self._does(tick.where)]:
            supervisor.every(tick.name, tick.seconds, tick.run)
        supervisor.every("tidy", TIDY_SECONDS, self._tidy)

    def stop(self) -> None:
        self.parts[SUPERVISOR].stop()
        for task in (*reversed([*self._at(When.STOP)]), *reversed([*self._at(When.CLOSE)])):
            task.run()
        self.database.dispose()

    def _tidy(self) -> None:
        for task in self._at(When.TIDY):
            task.run()

    def _does(self, where: Where) -> bool:
        return where is None or self.settings.role in ("all", where)

    def _at(self, when: When) -> Iterator[Task]:
        return (task for task in self._tasks if task.when is when)

    def app(self) -> Application:
        @asynccontextmanager
        async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
            self.start()
            try:
                yield
            finally:
                self.stop()

        routers = [router for feature in FEATURES for router in feature.routers]
        app = build_app(self.parts, routers, version("holdfast"), lifespan)
        for feature in FEATURES:
            feature.install(app)
        return app
