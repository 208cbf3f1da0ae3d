"""Puts the service together: the only file that knows every part."""

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from importlib.metadata import version

from fastapi import FastAPI
from sqlalchemy.orm import Session

from holdfast.access import feature as access
from holdfast.access import stored_secrets
from holdfast.access.vault import Vault
from holdfast.activity.overview_routes import routes as overview_routes
from holdfast.activity.routes import routes as activity_routes
from holdfast.activity.timeline_routes import routes as timeline_routes
from holdfast.agents import feature as agents
from holdfast.alarms import feature as alarms
from holdfast.alarms.present import open_messages
from holdfast.api.app import Application, build_app
from holdfast.archives import feature as archive_index
from holdfast.archives import fleet_routes
from holdfast.archives import routes as archive_routes
from holdfast.archives.constant_rules import ConstantRules
from holdfast.archives.fleet_feed import LOOK_SECONDS as NAMES_LOOK_SECONDS
from holdfast.archives.live import LiveAnswers
from holdfast.archives.retention.past_routes import routes as retention_past_routes
from holdfast.archives.retention.routes import routes as retention_routes
from holdfast.archives.sizes_routes import routes as size_routes
from holdfast.backup import create_archive
from holdfast.backup import on_agent as backup_on_agent
from holdfast.backup.dumps import make_dumps
from holdfast.backup.dumps.models import DumpedDatabase
from holdfast.backup.dumps.models import secret_context as dump_context
from holdfast.backup.dumps.routes import routes as dump_routes
from holdfast.backup.routes import routes as backup_routes
from holdfast.backup.services.holding import LOOK_SECONDS as HOLDS_LOOK_SECONDS
from holdfast.backup.services.holding import ServiceHolds
from holdfast.backup.services.routes import routes as service_routes
from holdfast.dav import feature as dav
from holdfast.execution.engines import Engines
from holdfast.kit.supervisor import Supervisor
from holdfast.machines import feature as machines
from holdfast.maintenance import feature as maintenance
from holdfast.metrics import feature as metrics
from holdfast.mirror import feature as mirror
from holdfast.notifications import feature as notifications
from holdfast.operations import background
from holdfast.operations.event_routes import routes as event_routes
from holdfast.operations.events import EventHub
from holdfast.operations.kinds import Registry
from holdfast.operations.present import Presenter
from holdfast.operations.readers import Horizon, Readers
from holdfast.operations.routes import routes as operation_routes
from holdfast.packages import feature as packages
from holdfast.reading import readers
from holdfast.reading.contents import Contents
from holdfast.repositories.agent_register import AgentRegister
from holdfast.repositories.corrections import Corrections
from holdfast.repositories.key_files import keep_known_keys, key_context
from holdfast.repositories.location import Opener, secret_context
from holdfast.repositories.models import Repository
from holdfast.repositories.register import Register
from holdfast.repositories.routes import routes as repository_routes
from holdfast.restore import feature as restore
from holdfast.runner.engine_requests import EngineRequests
from holdfast.runner.inline import InlineCalls
from holdfast.runner.loop import Runner
from holdfast.runner.notification_listener import NotificationListener
from holdfast.runner.reconcile import reconcile_if_due
from holdfast.schedules import feature as schedules
from holdfast.schedules import store as schedule_store
from holdfast.schedules.overdue_rules import ScheduleRules
from holdfast.schedules.running.thresholds import ScheduleCadence, missed_since, next_due
from holdfast.schedules.running.tick import LastTick
from holdfast.scripts import feature as scripts
from holdfast.settings import Settings
from holdfast.storage.session import Database
from holdfast.system import routes as system
from holdfast.web import pages

TIDY_SECONDS = 3600.0
RECONCILE_LOOK_SECONDS = 30.0


def register_secrets() -> None:
    """Register the secrets of all features for the key rotation."""
    stored_secrets.register(
        stored_secrets.SecretColumn(Repository.__tablename__, "passphrase", lambda row: secret_context(row["uuid"]))
    )
    stored_secrets.register(
        stored_secrets.SecretColumn(Repository.__tablename__, "keyfile", lambda row: key_context(row["uuid"]))
    )
    stored_secrets.register(machines.SECRETS)
    stored_secrets.register(notifications.SECRETS)
    stored_secrets.register(
        stored_secrets.SecretColumn(DumpedDatabase.__tablename__, "password", lambda row: dump_context(row["uuid"]))
    )
    stored_secrets.register(scripts.SECRETS)
    mirror.register_secrets()


def uses_of_scripts(session: Session) -> list[scripts.Use]:
    """The steps of schedules that run scripts: neither feature knows the other."""
    return [scripts.Use(found.id, found.name, step) for found, step in schedule_store.script_steps(session)]


class Service:
    """Everything that one `holdfast serve` process holds."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self.settings = settings
        self.database = database
        self.vault = Vault(settings)
        self.engines = Engines(settings)
        self.machines = machines.Machines(settings, database, self.vault, self.engines)
        called = agents.CalledEngines(database, settings.calls_dir)
        native_remotes = mirror.native_remotes(settings, database, self.vault)
        self.opener = Opener(settings, self.engines, self.vault, self.machines, called, native_remotes)
        self.archive_index = archive_index.build(settings, self.opener)
        self.mirror = mirror.build(settings, database, native_remotes.remotes, self.opener)
        self.scripts = scripts.Scripts(database, self.vault, self.machines, uses_of_scripts)
        self.service_holds = ServiceHolds(settings.data_dir / "holds", database, self.machines)
        self.registry = Registry.of(
            [
                create_archive.kind(self.opener, self.service_holds),
                make_dumps.kind(self.opener, self.vault, settings.database_programs),
                restore.restore_kind(self.opener),
                *maintenance.kinds(self.opener),
                *packages.kinds(),
                *self.scripts.kinds,
                *agents.kinds(),
                *self.archive_index.kinds,
                *self.mirror.kinds,
            ],
            [*self.archive_index.listeners, *self.mirror.listeners],
        )
        self._stopping = threading.Event()
        self.supervisor = Supervisor(self._stopping)
        self.schedules = schedules.build(settings, database, self.registry, self.supervisor)
        self.overdue_rules = overdue_rules = ScheduleRules(ConstantRules())
        self.alarms = alarms.build(database, overdue_rules)
        self.metrics = metrics.build(settings, database, overdue_rules)
        self.runner = Runner(settings, database, self.registry, self.supervisor, settings.role)
        self.listener = NotificationListener(database, self.supervisor)
        self.presenter = Presenter(self.registry, settings.logs_dir.absolute())
        horizon = Horizon(database)
        self.readers = Readers(database, self.supervisor, horizon)
        self.readers.register(*self.schedules.readers)
        sources = notifications.Sources(missed_since, next_due, open_messages)
        self.notifications = notifications.build(database, self.vault, self.supervisor, self.readers, sources)
        self.readers.register(*metrics.READERS)
        self.events = EventHub(settings, database, self.presenter, self.supervisor, horizon)
        self.inline = InlineCalls(settings, database, self.runner.identity.id, self.supervisor)
        self.readers_of_files = readers.Readers(self.opener, self.archive_index.chooser, database, self.supervisor)
        kinds = self.registry.kinds
        of_agents = AgentRegister(database, self.opener, kinds["init"], kinds["import"], kinds["break_lock"])
        self.register = Register(
            database,
            self.inline,
            self.opener,
            of_agents,
            Corrections(database, self.inline, self.opener, of_agents),
            on_import=(self.archive_index.stages.after_import,),
            on_index_mode=(self.archive_index.stages.after_mode_change,),
            on_forget=(self.archive_index.forget, self._end_reader),
            cloud=self.mirror.places,
        )
        self.agents = agents.Gateway(settings, database, self.registry, self.opener, self.supervisor)
        self.agents.fleet.on_online.append(self.schedules.tick.agents_came_online)
        self.access: access.Access | None = None

    def start(self) -> None:
        self.opener.own_places.store(self.database)
        keep_known_keys(self.database, self.opener.key_files)
        self.listener.start()
        self.runner.start(executes=self.settings.role in ("all", "runner"))
        if self.settings.role in ("all", "api"):
            self.events.start()
            self.agents.start()
            self.supervisor.every("readers", readers.TIDY_SECONDS, self.readers_of_files.tidy)
        if self.settings.role in ("all", "runner"):
            self.readers.start()
            self.schedules.start()
            self.notifications.start()
            self.supervisor.every("services", HOLDS_LOOK_SECONDS, self.service_holds.look_after)
            self.supervisor.every("mirrors", RECONCILE_LOOK_SECONDS, self._enqueue_due_mirrors)
            self.supervisor.every("reconcile", RECONCILE_LOOK_SECONDS, self._reconcile)
            self.supervisor.every("alarms", alarms.LOOK_SECONDS, self.alarms.run_if_due)
        if self.settings.ping_url is not None and self.settings.role in ("all", "runner"):
            ping = metrics.Ping(self.settings.ping_url.get_secret_value(), self.database, self.supervisor)
            self.supervisor.every("ping", metrics.PING_SECONDS, ping.step)
        self.supervisor.every("names", NAMES_LOOK_SECONDS, self._feed_names)
        self.supervisor.every("tidy", TIDY_SECONDS, self._tidy)
        self.supervisor.every("keys", TIDY_SECONDS, partial(keep_known_keys, self.database, self.opener.key_files))

    def stop(self) -> None:
        self._stopping.set()
        self.events.stop()
        self.agents.stop()
        self.runner.stop()
        self.readers_of_files.close()
        self.archive_index.indexes.close()
        if self.access is not None:
            self.access.close()
        self.database.dispose()

    def _end_reader(self, _session: Session, repository: Repository) -> None:
        self.readers_of_files.end(repository.uuid)

    def _enqueue_due_mirrors(self) -> None:
        self.mirror.mirrors.enqueue_due(self.database)

    def _reconcile(self) -> None:
        reconcile_if_due(self.database, self.archive_index.state, self.settings.reconcile_minutes)

    def _feed_names(self) -> None:
        self.archive_index.feed.look(self.database, self._stopping.is_set)

    def _tidy(self) -> None:
        if self.settings.role in ("all", "runner"):
            self.readers.know()
            self.notifications.tidy()
        background.tidy(self.database, self.settings)
        self.schedules.tidy()
        self.scripts.tidy()
        self.alarms.tidy()
        if self.access is not None:
            self.access.tidy()

    def app(self) -> Application:
        @asynccontextmanager
        async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
            self.start()
            try:
                yield
            finally:
                self.stop()

        routers = [
            *agents.ROUTERS,  # first: a fleet calls them more often than all others
            *access.ROUTERS,
            *machines.ROUTERS,
            repository_routes,
            backup_routes,
            dump_routes,
            service_routes,
            *restore.ROUTERS,
            *maintenance.ROUTERS,
            *packages.ROUTERS,
            *scripts.ROUTERS,
            *mirror.ROUTERS,
            *notifications.ROUTERS,
            *schedules.ROUTERS,
            *alarms.ROUTERS,
            *metrics.ROUTERS,
            archive_routes.routes,
            archive_routes.second_version,
            archive_routes.deprecated,
            retention_routes,
            retention_past_routes,
            size_routes,
            fleet_routes.routes,
            activity_routes,
            overview_routes,
            timeline_routes,
            operation_routes,
            event_routes,
            system.system,
            system.health,
        ]
        app = build_app(self.settings, self.database, routers, version("holdfast"), lifespan)
        self.access = access.install(app, self.settings, self.database, self.vault)
        machines.install(app, self.machines)
        maintenance.install(app, self.database, self.inline, self.opener)
        contents = Contents(self.archive_index.indexes, self.readers_of_files)
        restore.install(app, self.database, self.inline, self.opener, contents)
        mirror.install(app, self.mirror)
        notifications.install(app, self.notifications)
        schedules.install(app, self.schedules)
        scripts.install(app, self.scripts)
        metrics.install(app, self.metrics)
        backup_kind = self.registry.kinds["backup"]
        agents.install(app, self.agents, partial(backup_on_agent.start, kind=backup_kind))
        app.state.registry = self.registry
        app.state.dump_vault = self.vault
        app.state.own_places = self.opener.own_places
        app.state.engine_requests = EngineRequests(self.settings, self.database)
        app.state.supervisor = self.supervisor
        app.state.cadence = ScheduleCadence()
        app.state.overdue_rules = self.overdue_rules
        app.state.last_tick = LastTick(self.database)
        app.state.presenter = self.presenter
        app.state.derived_data = self.archive_index.state
        app.state.archive_index = self.archive_index
        app.state.live_answers = LiveAnswers(self.database, self.inline, self.opener)
        app.state.register = self.register
        app.state.engines = self.engines
        app.state.events = self.events
        dav.install(app, self.database, self.archive_index, self.opener.own_places)
        pages.install(app)
        return app
