"""The parts of the service that execute operations and call engines for requests."""

from functools import partial

from holdfast.api.dependencies import DATABASE, SETTINGS, SUPERVISOR
from holdfast.api.parts import Parts
from holdfast.kit.compute_process import ComputeProcess
from holdfast.operations.derived import DERIVED_DATA
from holdfast.operations.kinds import REGISTRY
from holdfast.operations.manifest import Feature, Task, Tick, When
from holdfast.runner.computations import COMPUTATIONS, Computations
from holdfast.runner.engine_requests import ENGINE_REQUESTS, EngineRequests
from holdfast.runner.inline import INLINE_CALLS, InlineCalls
from holdfast.runner.loop import RUNNER, Runner
from holdfast.runner.notification_listener import NotificationListener
from holdfast.runner.reconcile import reconcile_if_due

RECONCILE_LOOK_SECONDS = 30.0


def _runner(parts: Parts) -> Runner:
    settings = parts[SETTINGS]
    return Runner(settings, parts[DATABASE], parts[REGISTRY], parts[SUPERVISOR], settings.role)


def _inline_calls(parts: Parts) -> InlineCalls:
    return InlineCalls(parts[SETTINGS], parts[DATABASE], parts[RUNNER].identity.id, parts[SUPERVISOR])


def _tasks(parts: Parts) -> tuple[Task, ...]:
    listener, runner = NotificationListener(parts[DATABASE], parts[SUPERVISOR]), parts[RUNNER]
    return (
        Task(When.START, listener.start),
        Task(When.START, partial(runner.start, executes=parts[SETTINGS].role != "api")),
        Task(When.STOP, runner.stop),
        Task(When.STOP, parts[COMPUTATIONS].computer.end, "api"),
    )


def _ticks(parts: Parts) -> tuple[Tick, ...]:
    reconcile = partial(reconcile_if_due, parts[DATABASE], parts[DERIVED_DATA], parts[SETTINGS].reconcile_minutes)
    return (Tick("reconcile", RECONCILE_LOOK_SECONDS, reconcile, "runner"),)


FEATURE = Feature(
    name="runner",
    provides=(
        RUNNER.made_by(_runner),
        INLINE_CALLS.made_by(_inline_calls),
        ENGINE_REQUESTS.made_by(lambda parts: EngineRequests(parts[SETTINGS], parts[DATABASE])),
        COMPUTATIONS.made_by(lambda parts: Computations(parts[SETTINGS], ComputeProcess())),
    ),
    ticks=_ticks,
    tasks=_tasks,
)
