"""The parts of the service that the kernel contributes."""

from functools import partial

from holdfast.access import audit
from holdfast.api.dependencies import DATABASE, SETTINGS, SUPERVISOR
from holdfast.api.parts import Parts
from holdfast.operations import background, user_events
from holdfast.operations.event_routes import routes as event_routes
from holdfast.operations.events import EVENT_HUB, EventHub
from holdfast.operations.kinds import REGISTRY
from holdfast.operations.manifest import Feature, Task, When
from holdfast.operations.present import PRESENTER, Presenter
from holdfast.operations.readers import HORIZON, READERS, Horizon, Readers
from holdfast.operations.routes import routes


def _event_hub(parts: Parts) -> EventHub:
    return EventHub(parts[SETTINGS], parts[DATABASE], parts[PRESENTER], parts[SUPERVISOR], parts[HORIZON])


def _tasks(parts: Parts) -> tuple[Task, ...]:
    events, readers = parts[EVENT_HUB], parts[READERS]
    return (
        Task(When.PREPARE, readers.know, "runner"),
        Task(When.START, events.start, "api"),
        Task(When.START, readers.start, "runner"),
        Task(When.TIDY, readers.know, "runner"),
        Task(When.TIDY, partial(background.tidy, parts[DATABASE], parts[SETTINGS])),
        Task(When.STOP, events.stop),
    )


audit.followed_by(user_events.report)
"""Set once for the whole program, not per service: `holdfast admin` changes users, too."""

FEATURE = Feature(
    name="operations",
    routers=(routes, event_routes),
    provides=(
        PRESENTER.made_by(lambda parts: Presenter(parts[REGISTRY], parts[SETTINGS].logs_dir.absolute())),
        HORIZON.made_by(lambda parts: Horizon(parts[DATABASE])),
        READERS.made_by(lambda parts: Readers(parts[DATABASE], parts[SUPERVISOR], parts[HORIZON])),
        EVENT_HUB.made_by(_event_hub),
    ),
    tasks=_tasks,
)
