"""The parts of the service that notifications contribute."""

from holdfast.access.stored_secrets import SecretColumn
from holdfast.access.vault import VAULT
from holdfast.api.dependencies import DATABASE, SUPERVISOR
from holdfast.api.parts import Parts
from holdfast.notifications.destinations import secret_context
from holdfast.notifications.events import reader
from holdfast.notifications.models import Destination
from holdfast.notifications.reports.findings import SOURCES
from holdfast.notifications.routes import routes
from holdfast.notifications.state import NOTIFICATIONS, Notifications
from holdfast.operations.manifest import Feature, Task, When


def _notifications(parts: Parts) -> Notifications:
    return Notifications(parts[DATABASE], parts[VAULT], parts[SUPERVISOR], parts[SOURCES])


def _tasks(parts: Parts) -> tuple[Task, ...]:
    notifications = parts[NOTIFICATIONS]
    return Task(When.START, notifications.start, "runner"), Task(When.TIDY, notifications.tidy, "runner")


FEATURE = Feature(
    name="notifications",
    routers=(routes,),
    secrets=(SecretColumn(Destination.__tablename__, "secrets", lambda row: secret_context(row["uuid"])),),
    provides=(NOTIFICATIONS.made_by(_notifications),),
    readers=lambda _parts: (reader.reader(),),
    tasks=_tasks,
)
