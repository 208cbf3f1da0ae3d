"""The parts of the service that the archive index contributes."""

from holdfast.api.dependencies import DATABASE, SETTINGS, SUPERVISOR
from holdfast.api.parts import Parts
from holdfast.archives import fleet_routes, history_routes, index_routes, routes
from holdfast.archives.archive_index import ARCHIVE_INDEX, build
from holdfast.archives.constant_rules import ConstantRules
from holdfast.archives.fleet_names_updater import CHECK_SECONDS
from holdfast.archives.live_answers import LIVE_ANSWERS, LiveAnswers
from holdfast.archives.retention import past_routes
from holdfast.archives.retention.routes import routes as retention_routes
from holdfast.archives.sizes_routes import routes as size_routes
from holdfast.operations.derived import DERIVED_DATA
from holdfast.operations.manifest import Feature, Task, Tick, When
from holdfast.repositories.location import OPENER
from holdfast.repositories.overdue import CONSTANT_RULES
from holdfast.repositories.register import REGISTER
from holdfast.runner.inline import INLINE_CALLS


def _connect(parts: Parts) -> None:
    index, register = parts[ARCHIVE_INDEX], parts[REGISTER]
    register.on_import.append(index.stages.after_import)
    register.on_index_mode.append(index.stages.after_mode_change)
    register.on_forget.append(index.forget)
    register.on_forget.append(lambda _session, repository: parts[LIVE_ANSWERS].cache.forget(repository.id))


def _ticks(parts: Parts) -> tuple[Tick, ...]:
    names_updater, database, stopping = parts[ARCHIVE_INDEX].names_updater, parts[DATABASE], parts[SUPERVISOR].stopping
    return (Tick("names", CHECK_SECONDS, lambda: names_updater.catch_up_if_due(database, stopping.is_set)),)


FEATURE = Feature(
    name="archives",
    routers=(
        routes.routes,
        index_routes.routes,
        history_routes.routes,
        routes.second_version,
        routes.deprecated,
        retention_routes,
        past_routes.routes,
        size_routes,
        fleet_routes.routes,
    ),
    provides=(
        ARCHIVE_INDEX.made_by(lambda parts: build(parts[SETTINGS], parts[OPENER])),
        DERIVED_DATA.made_by(lambda parts: parts[ARCHIVE_INDEX].state),
        LIVE_ANSWERS.made_by(lambda parts: LiveAnswers(parts[DATABASE], parts[INLINE_CALLS], parts[OPENER])),
        CONSTANT_RULES.given(ConstantRules()),
    ),
    kinds=lambda parts: parts[ARCHIVE_INDEX].kinds,
    listeners=lambda parts: parts[ARCHIVE_INDEX].listeners,
    tasks=lambda parts: (
        Task(When.CLOSE, parts[ARCHIVE_INDEX].indexes.close),
        Task(When.CLOSE, parts[ARCHIVE_INDEX].names_updater.close),
    ),
    ticks=_ticks,
    connect=_connect,
)
