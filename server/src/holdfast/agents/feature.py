"""What agents contribute to the service."""

from functools import partial

from holdfast.agents import install_routes, routes, runtime_routes, setup_kinds
from holdfast.agents.called_engines import CalledEngines
from holdfast.agents.fast_path import FastPath
from holdfast.agents.gateway import GATEWAY, Gateway
from holdfast.api.app import Application
from holdfast.api.dependencies import DATABASE, SETTINGS, SUPERVISOR
from holdfast.api.parts import Parts
from holdfast.operations.kinds import REGISTRY
from holdfast.operations.manifest import Feature, Task, When
from holdfast.repositories.location import AGENT_ENGINES, OPENER


def _gateway(parts: Parts) -> Gateway:
    return Gateway(parts[SETTINGS], parts[DATABASE], parts[REGISTRY], parts[OPENER], parts[SUPERVISOR])


def _tasks(parts: Parts) -> tuple[Task, ...]:
    return Task(When.START, parts[GATEWAY].start, "api"), Task(When.STOP, parts[GATEWAY].stop)


def _install(app: Application) -> None:
    app.put_before(partial(FastPath, gateway=GATEWAY.of(app)))
    app.streamed_paths += ("/api/agents/calls/",)
    app.steady_paths += ("/api/agents/",)


FEATURE = Feature(
    name="agents",
    routers=(runtime_routes.routes, routes.routes, install_routes.routes),
    provides=(
        GATEWAY.made_by(_gateway),
        AGENT_ENGINES.made_by(lambda parts: CalledEngines(parts[DATABASE], parts[SETTINGS].calls_dir)),
    ),
    kinds=lambda _parts: setup_kinds.kinds(),
    tasks=_tasks,
    install=_install,
)
