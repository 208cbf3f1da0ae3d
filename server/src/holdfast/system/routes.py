"""What the service says about itself."""

from typing import Annotated, Literal

from fastapi import Depends, Request, Response

from holdfast.access.caller import SignedIn, public
from holdfast.access.plans import FEATURES
from holdfast.api.dependencies import TheDatabase, TheSettings
from holdfast.api.router import router
from holdfast.execution.engines import Engines
from holdfast.kit.schema import Schema

health = router("/health", "health", dependencies=[Depends(public)])
system = router("/api/system", "system")


class Health(Schema):
    status: Literal["ok", "unavailable"]
    store: Literal["reachable", "unreachable"] | None = None


class EngineFound(Schema):
    major: int
    version: str
    path: str


class SystemInfo(Schema):
    version: str
    plan: str
    features: dict[str, str]
    engines: list[EngineFound]
    store: str


@health.get("/live", summary="The process answers")
async def live() -> Health:
    return Health(status="ok")


@health.get("/ready", summary="The service can work")
def ready(database: TheDatabase, response: Response) -> Health:
    """503 while the store is not reachable."""
    if database.is_reachable():
        return Health(status="ok", store="reachable")
    response.status_code = 503
    return Health(status="unavailable", store="unreachable")


async def the_engines(request: Request) -> Engines:
    engines: Engines = request.app.state.engines
    return engines


@system.get("/info", summary="Version, plan, features and engines")
def info(
    _caller: SignedIn,
    request: Request,
    database: TheDatabase,
    settings: TheSettings,
    engines: Annotated[Engines, Depends(the_engines)],
) -> SystemInfo:
    found = [EngineFound(major=one.major, version=one.version, path=one.path) for one in engines.found()]
    return SystemInfo(
        version=request.app.version,
        plan=settings.plan,
        features={str(name): str(plan) for name, plan in FEATURES.items()},
        engines=found,
        store=database.dialect,
    )
