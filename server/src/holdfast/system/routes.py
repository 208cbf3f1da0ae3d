"""The service's information about itself."""

from datetime import datetime
from typing import Annotated, Literal

from fastapi import Depends, Request, Response
from pydantic import Field

from holdfast.access.caller import SignedIn, public
from holdfast.access.plans import FEATURES
from holdfast.access.roles import Role
from holdfast.api.dependencies import SUPERVISOR, TheDatabase, TheSettings
from holdfast.api.router import router
from holdfast.api.threads import in_thread
from holdfast.execution.engines import ENGINES, Engines
from holdfast.kit.fields import Timestamp
from holdfast.kit.schema import Schema
from holdfast.kit.supervisor import LoopReport, Supervisor
from holdfast.repositories.cadence import LAST_TICK, LastTick

health = router("/health", "health", dependencies=[Depends(public)])
system = router("/api/system", "system")

KEEPS_FAILING = 3
"""A loop that has failed this many times in a row makes the service not ready."""


class Health(Schema):
    status: Literal["ok", "degraded", "unavailable"]
    store: Literal["reachable", "unreachable"] | None = None
    failing: list[str] | None = Field(None, description="Background loops that are currently failing, if any.")
    last_tick_at: Timestamp | None = Field(None, description="When schedules were last checked, by any process.")


class EngineFound(Schema):
    major: int
    version: str
    path: str


class LoopFound(Schema):
    name: str
    state: Literal["running", "failing"]
    restarts: int = Field(description="Failures since the process started; each was retried.")
    failures_in_a_row: int
    last_error: str | None
    last_error_at: datetime | None


class SystemInfo(Schema):
    version: str
    plan: str
    features: dict[str, str]
    engines: list[EngineFound]
    store: str
    loops: list[LoopFound] | None = Field(None, description="Background loops of this process; for administrators.")


@health.get("/live", summary="The process answers")
async def live() -> Health:
    return Health(status="ok")


TheSupervisor = Annotated[Supervisor, Depends(SUPERVISOR)]


TheLastTick = Annotated[LastTick, Depends(LAST_TICK)]


@health.get("/ready", summary="Check that the service is ready", response_model_exclude_none=True)
async def ready(database: TheDatabase, supervisor: TheSupervisor, last_tick: TheLastTick, response: Response) -> Health:
    """`degraded` while a background loop fails. 503 once a loop keeps failing, or while the store is not reachable."""
    if not (database.is_known_to_be_reachable() or await in_thread("reading", database.is_reachable)):
        response.status_code = 503
        return Health(status="unavailable", store="unreachable")
    ticked = last_tick.at if last_tick.is_fresh else await in_thread("reading", last_tick.read)
    failing = supervisor.failing()
    if not failing:
        return Health(status="ok", store="reachable", last_tick_at=ticked)
    if any(loop.failures_in_a_row >= KEEPS_FAILING for loop in failing):
        response.status_code = 503
    names = [loop.name for loop in failing]
    return Health(status="degraded", store="reachable", failing=names, last_tick_at=ticked)


@system.get("/info", summary="Get the version, plan, features and engines")
def info(
    caller: SignedIn,
    request: Request,
    database: TheDatabase,
    settings: TheSettings,
    engines: Annotated[Engines, Depends(ENGINES)],
    supervisor: TheSupervisor,
) -> SystemInfo:
    found = [EngineFound(major=one.major, version=one.version, path=one.path) for one in engines.found()]
    return SystemInfo(
        version=request.app.version,
        plan=settings.plan,
        features={str(name): str(plan) for name, plan in FEATURES.items()},
        engines=found,
        store=database.dialect,
        loops=[_loop(report) for report in supervisor.reports()] if caller.role is Role.ADMIN else None,
    )


def _loop(report: LoopReport) -> LoopFound:
    return LoopFound.from_row(report)
