"""Notifications on an empty store, without threads: the test decides when the outbox is read and messages are sent."""

import base64
import uuid
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import time_machine
from sqlalchemy import select

from holdfast.access.caller import Caller
from holdfast.access.roles import Role
from holdfast.access.vault import Vault
from holdfast.kit import clock
from holdfast.kit.supervisor import Supervisor
from holdfast.notifications import edit
from holdfast.notifications.events import reader
from holdfast.notifications.models import Delivery, Destination, Incident, Rule
from holdfast.notifications.reports.findings import Sources
from holdfast.notifications.schemas import DestinationOptions, NewDestination, RuleBody
from holdfast.notifications.state import Notifications
from holdfast.operations import outbox
from holdfast.operations.models import Operation
from holdfast.operations.readers import Horizon, Readers
from holdfast.schedules.models import Schedule
from holdfast.settings import Settings
from holdfast.storage.session import Database

ADMIN = Caller(1, "admin", Role.ADMIN, None, None, None, must_change_password=False, address=None)
SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()


class World:
    def __init__(self, database: Database, folder: Path) -> None:
        self.database = database
        self.supervisor = Supervisor()
        self.vault = Vault(Settings(data_dir=folder))
        self.readers = Readers(database, self.supervisor, Horizon(database))
        self.readers.register(reader.reader())
        self.notifications = self.started_with(Sources())
        self.readers.know()

    def started_with(self, sources: Sources) -> Notifications:
        return Notifications(self.database, self.vault, self.supervisor, sources)

    # --- setup ---

    def webhook(self, url: str, name: str = "hook", **options: Any) -> int:
        return self.destination(name, "webhook", url=url, secret=SECRET, **options)

    def destination(self, name: str, kind: str, **options: Any) -> int:
        wanted = NewDestination(name=name, kind=kind, options=DestinationOptions(**options))  # type: ignore[arg-type]
        with self.database.writing() as session:
            if "schedule_id" in options:
                session.add(a_schedule(options["schedule_id"]))
            made, _ = edit.add_destination(session, ADMIN, self.notifications.destinations, wanted)
            return made.id

    def rule(self, name: str = "rule", **more: Any) -> int:
        with self.database.writing() as session:
            return edit.RULES.add(session, ADMIN, RuleBody(name=name, **{"group_seconds": 0, **more})).id

    # --- events ---

    def ends(
        self, status: str = "failed", kind: str = "backup", repository: int = 7, name: str = "photos", **more: Any
    ) -> int:
        """An operation ends: its row and its outbox row, in one transaction."""
        now = clock.now()
        values = {"error_key": "engine.failed", "error_message": "It broke."} if status == "failed" else {}
        operation = Operation(
            uuid=uuid.uuid4().hex,
            kind=kind,
            category=kind,
            status=status,
            trigger="manual",
            priority=0,
            queue_rank=0.0,
            run_id=more.pop("run_id", uuid.uuid4().hex),
            repository_id=repository,
            repository_name=name,
            created_at=now,
            completed_at=now,
            **{**values, **more},
        )
        with self.database.writing() as session:
            session.add(operation)
            session.flush()
            payload = {"id": operation.id, "status": status}
            outbox.publish(session, "operation.updated", payload, repository_id=repository, operation_id=operation.id)
            return operation.id

    def tell(self, topic: str, repository: int | None = None, **payload: Any) -> None:
        with self.database.writing() as session:
            outbox.publish(session, topic, payload, repository_id=repository)

    def read(self) -> None:
        while self.readers.catch_up():
            pass
        assert self.supervisor.failing() == []

    def send(self) -> int:
        """Send everything that is due; return the number of attempts."""
        count = 0
        while self.notifications.queue.step():
            count += 1
        return count

    def flow(self) -> int:
        self.read()
        return self.send()

    def later(self, seconds: float) -> Any:
        return time_machine.travel(clock.now() + timedelta(seconds=seconds), tick=True)

    # --- reading ---

    def deliveries(self) -> list[Delivery]:
        with self.database.reading() as session:
            return list(session.scalars(select(Delivery).order_by(Delivery.id)))

    def incidents(self) -> list[Incident]:
        with self.database.reading() as session:
            return list(session.scalars(select(Incident).order_by(Incident.id)))

    def the_destination(self, destination_id: int) -> Destination:
        with self.database.reading() as session:
            found = session.get(Destination, destination_id)
        assert found is not None
        return found

    def rules(self) -> list[Rule]:
        with self.database.reading() as session:
            return list(session.scalars(select(Rule)))


def a_schedule(number: int) -> Schedule:
    now = clock.now()
    wanted = {"schedule_mode": "cron", "cron_expression": "0 2 * * *", "targets": {"all": True}, "steps": []}
    return Schedule(id=number, uuid=uuid.uuid4().hex, name=f"{number}", created_at=now, updated_at=now, **wanted)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)
