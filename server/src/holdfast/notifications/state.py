"""The state of notifications shared by routes and loops."""

import time
import uuid
from datetime import timedelta
from typing import Annotated

from fastapi import Depends
from sqlalchemy import delete

from holdfast.access.vault import Vault
from holdfast.api.parts import Part
from holdfast.kit import clock
from holdfast.kit.supervisor import Supervisor
from holdfast.notifications import edit
from holdfast.notifications.deliver.queue import LEASE_SECONDS, Claimed, Queue
from holdfast.notifications.deliver.render import body_of
from holdfast.notifications.deliver.result import Result
from holdfast.notifications.destinations import Destinations
from holdfast.notifications.events import reader
from holdfast.notifications.models import Delivery, DeliveryState, DestinationKind, Incident, Severity
from holdfast.notifications.reports.findings import Sources
from holdfast.notifications.reports.send import is_report_due, send_due
from holdfast.operations.models import KernelSetting
from holdfast.storage.inserts import insert_unless_there
from holdfast.storage.session import Database

TICK_SECONDS = 30.0
DELIVERIES_KEPT = timedelta(days=30)
INCIDENTS_KEPT = timedelta(days=90)
FIRST_START = "notifications.default_rule_added"


class Notifications:
    def __init__(self, database: Database, vault: Vault, supervisor: Supervisor, sources: Sources) -> None:
        self._database, self._supervisor, self._sources = database, supervisor, sources
        self.destinations = Destinations(database, vault)
        self.queue = Queue(database, supervisor, self.destinations.send)

    def start(self) -> None:
        """Add the default rule on the first start, then start sending, reminding and reporting."""
        self._add_default_rule()
        self.queue.start()
        self._supervisor.every("notify-tick", TICK_SECONDS, self.tick)

    def tick(self) -> None:
        """Send due reminders and reports. It reads before it writes, so an idle service writes nothing."""
        now = clock.now()
        with self._database.reading() as session:
            is_due = reader.is_reminder_due(session, now) or is_report_due(session, now)
        if is_due:
            with self._database.writing() as session:
                reader.remind(session)
                send_due(session, self._sources)

    def tidy(self) -> None:
        """Delete deliveries and incidents that ended long ago."""
        now = clock.now()
        with self._database.writing() as session:
            session.execute(delete(Delivery).where(Delivery.ended_at < now - DELIVERIES_KEPT))
            session.execute(delete(Incident).where(Incident.closed_at < now - INCIDENTS_KEPT))

    def test(self, destination_id: int) -> tuple[Result, float, int]:
        """Send a test message immediately. Return the result, its duration in seconds, and the delivery's id."""
        now = clock.now()
        with self._database.writing() as session:
            destination = edit.require_destination(session, destination_id)
            item = {
                "event": "test",
                "severity": "info",
                "at": now.isoformat(),
                "title": f"Test message to {destination.name}",
                "text": "If you can read this, messages are being delivered.",
            }
            delivery = Delivery(
                uuid=uuid.uuid4().hex,
                destination_id=destination_id,
                type="test",
                severity=int(Severity.INFO),
                items=[item],
                more=0,
                state=DeliveryState.SENDING,
                attempts=1,
                created_at=now,
                next_attempt_at=now,
                first_attempt_at=now,
                lease=uuid.uuid4().hex,
                lease_until=now + timedelta(seconds=LEASE_SECONDS),
            )
            delivery.body = body_of(delivery, None)
            if destination.kind == DestinationKind.PING:
                delivery.body = {"action": "log", "run": "", "text": item["text"], "subject": item["title"]}
            session.add(delivery)
            session.flush()
            claimed = Claimed(delivery.id, delivery.uuid, delivery.lease or "", destination_id, delivery.body)
        begin = time.monotonic()
        result = self.destinations.send(destination_id, claimed.body, claimed.uuid)
        self.queue.record(claimed, result, is_last=True)
        return result, time.monotonic() - begin, claimed.delivery_id

    def _add_default_rule(self) -> None:
        with self._database.reading() as session:
            if session.get(KernelSetting, FIRST_START) is not None:
                return
        with self._database.writing() as session:
            if insert_unless_there(session, KernelSetting, {"name": FIRST_START, "value": True}) is not None:
                edit.add_default_rule(session)


NOTIFICATIONS = Part[Notifications]("notifications")
TheNotifications = Annotated[Notifications, Depends(NOTIFICATIONS)]
