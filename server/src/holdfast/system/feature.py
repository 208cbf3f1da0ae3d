"""The system feature: health checks and information about the service."""

from holdfast.api.dependencies import SUPERVISOR
from holdfast.api.parts import Parts
from holdfast.execution.engines import ENGINES
from holdfast.operations.manifest import Feature, Task, When
from holdfast.system.routes import health, system


def _tasks(parts: Parts) -> tuple[Task, ...]:
    return (Task(When.START, lambda: parts[SUPERVISOR].run_until_done("engines", parts[ENGINES].detect_all)),)


FEATURE = Feature(name="system", routers=(system, health), tasks=_tasks)
