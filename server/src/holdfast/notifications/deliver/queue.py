"""The delivery queue: deliveries are claimed with a lease, sent, and recorded.

Each is sent at least once, always with the same id, and in order for each destination.
"""

import random
import threading
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final, cast

import structlog
from sqlalchemy import CursorResult, Select, and_, bindparam, case, func, or_, select, update
from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from holdfast.kit import clock
from holdfast.kit.supervisor import Supervisor
from holdfast.notifications.deliver.render import body_of
from holdfast.notifications.deliver.result import Result
from holdfast.notifications.events.from_outbox import failing_key
from holdfast.notifications.models import Delivery, DeliveryState, Destination, Incident, Rule
from holdfast.operations import outbox
from holdfast.storage.read_cache import Version
from holdfast.storage.session import Database

log = structlog.get_logger("holdfast.notifications")

SENDERS = 4
POLL_SECONDS = 1.0
SHORTEST_POLL_SECONDS = 0.01
LEASE_SECONDS = 30.0
"""Longer than any attempt may take: 15 seconds for webhooks and mail, 20 for Apprise."""
BACK_OFF_SECONDS = (5, 60, 300, 1800, 7200, 21600, 43200, 86400)
JITTER = 0.1
LONGEST_WAIT = timedelta(seconds=BACK_OFF_SECONDS[-1] * (1 + JITTER))
"""No message waits longer: `Retry-After`, groups and quiet hours last a day at most."""
GIVE_UP_AFTER = timedelta(days=3)
ENDED_TOPIC: Final = "notification.delivery"
FAILED_TOPIC: Final = "notification.failed"
RECOVERED_TOPIC: Final = "notification.recovered"


@frozen
class Claimed:
    delivery_id: int
    uuid: str
    lease: str
    destination_id: int
    body: dict[str, Any]


Send = Callable[[int, dict[str, Any], str], Result]
"""Given a destination's id, a body and the delivery's uuid, send the body. Never raises."""


class Queue:
    def __init__(self, database: Database, supervisor: Supervisor, send: Send) -> None:
        self._database = database
        self._supervisor = supervisor
        self._send = send
        self._chance = random.Random()  # noqa: S311 - spreads retries, guards nothing
        self._looking = threading.Lock()
        """Held by the sender that looks for due messages. The other idle ones wait for it."""
        self._seen = -1
        self._nothing_due: tuple[Version | None, datetime | None] = (None, None)
        """The commit at which nothing was due, if known, and when the next message is due or a lease ends."""
        self._looked_at = clock.now()

    def start(self) -> None:
        """Start the senders. One idle sender looks for due messages; when it has found one, the next one looks."""
        for number in range(1, SENDERS + 1):
            name = f"notify-{number}"
            self._supervisor.keep_running(name, lambda name=name: self._send_forever(name))  # type: ignore[misc]

    def step(self) -> bool:
        """Send one due message. Return whether there was one."""
        claimed = self.claim()
        if claimed is not None:
            self._attempt(claimed)
        return claimed is not None

    def claim(self) -> Claimed | None:
        """Claim the next message. Each destination has one in flight at a time; a failed one precedes later ones."""
        now = clock.now()
        commits = self._database.commits()
        known, until = self._nothing_due
        if commits and commits == known and self._looked_at <= now and (until is None or now < until):
            return None
        with self._database.reading() as session:
            found, next_at = _look(session, now)
        self._nothing_due, self._looked_at = (None if found else commits, next_at), now
        if not found:
            return None
        with self._database.writing() as session:
            for delivery_id in found:
                claimed = self._claim(session, delivery_id, now)
                if claimed is not None:
                    return claimed
        return None

    def record(self, claimed: Claimed, result: Result, *, is_last: bool = False) -> None:
        """Store the result of an attempt, unless another sender holds the lease. A test is tried only once."""
        now = clock.now()
        with self._database.writing() as session:
            own = select(Delivery).where(Delivery.id == claimed.delivery_id, Delivery.lease == claimed.lease)
            delivery = session.scalar(own.with_for_update())
            destination = session.get(Destination, claimed.destination_id)
            if delivery is None or delivery.state != DeliveryState.SENDING:
                return
            delivery.lease = delivery.lease_until = None
            if result.ok:
                delivery.state, delivery.ended_at, delivery.last_error = DeliveryState.SENT, now, None
            elif is_last:
                delivery.state, delivery.ended_at, delivery.last_error = DeliveryState.FAILED, now, result.message
            else:
                self._failed(session, delivery, destination, result, now)
            if destination is not None:
                _note(session, destination, result, now)
                _count(session, destination, delivery.state)
        if not result.ok:
            log.warning("a message was not delivered", delivery=claimed.uuid, reason=result.message)

    def _claim(self, session: Session, delivery_id: int, now: datetime) -> Claimed | None:
        destination = session.scalar(
            select(Destination)
            .join(Delivery, Delivery.destination_id == Destination.id)
            .where(Delivery.id == delivery_id, Destination.enabled)
            .with_for_update(of=Destination, skip_locked=True)
        )
        delivery = session.get(Delivery, delivery_id, with_for_update=True, populate_existing=True)
        if destination is None or delivery is None or delivery_id not in _look(session, now, destination.id)[0]:
            return None
        if delivery.body is None:
            rule = session.get(Rule, delivery.rule_id) if delivery.rule_id is not None else None
            delivery.body = body_of(delivery, rule.template if rule is not None else None)
        delivery.state, delivery.lease = DeliveryState.SENDING, uuid.uuid4().hex
        delivery.lease_until = clock.now() + timedelta(seconds=LEASE_SECONDS)
        delivery.attempts += 1
        # The times may be of the future if the clock was ahead.
        delivery.created_at = min(delivery.created_at, now)
        delivery.first_attempt_at = min(delivery.first_attempt_at or now, now)
        return Claimed(delivery.id, delivery.uuid, delivery.lease, destination.id, delivery.body)

    def _failed(
        self, session: Session, delivery: Delivery, destination: Destination | None, result: Result, now: datetime
    ) -> None:
        delivery.last_error = result.message
        is_over = delivery.first_attempt_at is not None and now - delivery.first_attempt_at >= GIVE_UP_AFTER
        if result.is_gone or result.is_refused or is_over:
            delivery.state, delivery.ended_at = DeliveryState.FAILED, now
            if destination is not None and not (result.is_refused and _is_reported(session, destination)):
                _tell(session, FAILED_TOPIC, destination, result.message)
            return
        wait = BACK_OFF_SECONDS[min(delivery.attempts, len(BACK_OFF_SECONDS)) - 1]
        seconds = max(wait * self._chance.uniform(1 - JITTER, 1 + JITTER), result.retry_after or 0.0)
        delivery.state = DeliveryState.WAITING
        delivery.next_attempt_at = now + timedelta(seconds=seconds)

    def _send_forever(self, name: str) -> None:
        while not self._supervisor.stopping.is_set():
            with self._looking:
                claimed = self._next(name)
            if claimed is not None:
                self._attempt(claimed)

    def _next(self, name: str) -> Claimed | None:
        """Wait for a due message and claim it. Return None when the service stops."""
        while not self._supervisor.stopping.is_set():
            claimed = self.claim()
            self._supervisor.record_working(name)
            if claimed is not None:
                return claimed
            self._seen = self._database.wake.wait(self._seen, self._pause())
        return None

    def _attempt(self, claimed: Claimed) -> None:
        self.record(claimed, self._send(claimed.destination_id, claimed.body, claimed.uuid))

    def _pause(self) -> float:
        """Return how long to wait for the next due message."""
        _, next_at = self._nothing_due
        if next_at is None:
            return POLL_SECONDS
        return min(POLL_SECONDS, max(SHORTEST_POLL_SECONDS, (next_at - clock.now()).total_seconds()))


def _note(session: Session, destination: Destination, result: Result, now: datetime) -> None:
    if result.ok:
        if destination.failing_since is not None:
            _tell(session, RECOVERED_TOPIC, destination, None)
        destination.last_sent_at, destination.failing_since, destination.last_error = now, None, None
        return
    destination.failing_since = min(destination.failing_since or now, now)
    destination.last_error = result.message
    if result.is_gone:
        destination.enabled, destination.disabled_reason = False, "gone"
        ended = session.execute(
            update(Delivery)
            .where(Delivery.destination_id == destination.id, Delivery.state == DeliveryState.WAITING)
            .values(state=DeliveryState.FAILED, ended_at=now, last_error=result.message)
        )
        _count(session, destination, DeliveryState.FAILED, cast("CursorResult[Any]", ended).rowcount)


def _is_reported(session: Session, destination: Destination) -> bool:
    """Whether the other destinations know that this one fails.

    Without this check, two destinations that refuse everything would report each other without end.
    """
    opened = select(Incident.id).where(Incident.key == failing_key(destination.id), Incident.closed_at.is_(None))
    return session.scalar(opened) is not None


def _tell(session: Session, topic: outbox.Topic, destination: Destination, reason: str | None) -> None:
    outbox.publish_for_admins(
        session, topic, [{"destination_id": destination.id, "name": destination.name, "reason": reason}]
    )


def _count(session: Session, destination: Destination, state: str, number: int = 1) -> None:
    """Report deliveries that have ended, for the counters."""
    if state in (DeliveryState.SENT, DeliveryState.FAILED) and number:
        details = {"kind": str(destination.kind), "state": str(state)}
        outbox.publish_for_admins(session, ENDED_TOPIC, [details] * number)


def _looking() -> Select[Any]:
    """Select for each destination: what is being sent, what was tried, what may be sent now, and what is due later.

    Times that were set while the clock was ahead count as due.
    """
    now, latest_now, latest_lease, latest_wait = (
        bindparam(name, type_=Delivery.next_attempt_at.type)
        for name in ("now", "latest_now", "latest_lease", "latest_wait")
    )
    is_leased = and_(
        Delivery.state == DeliveryState.SENDING, Delivery.lease_until > now, Delivery.lease_until <= latest_lease
    )
    is_tried = Delivery.attempts > 0
    is_due = or_(
        Delivery.next_attempt_at <= now,
        Delivery.next_attempt_at > latest_wait,
        Delivery.created_at > latest_now,
        Delivery.first_attempt_at > latest_now,
    )
    may_go = or_(
        and_(Delivery.state == DeliveryState.WAITING, is_due),
        and_(Delivery.state == DeliveryState.SENDING, ~is_leased),
    )
    return (
        select(
            func.sum(case((is_leased, 1), else_=0)).label("leased"),
            func.min(case((is_tried, Delivery.id))).label("tried"),
            func.min(case((and_(is_tried, may_go), Delivery.id))).label("tried_due"),
            func.min(case((may_go, Delivery.id))).label("due"),
            func.min(case((may_go, Delivery.next_attempt_at))).label("since"),
            func.min(
                case((is_leased, Delivery.lease_until), (Delivery.next_attempt_at > now, Delivery.next_attempt_at))
            ).label("following"),
        )
        .join(Destination, and_(Destination.id == Delivery.destination_id, Destination.enabled))
        .where(Delivery.state.in_([DeliveryState.WAITING, DeliveryState.SENDING]))
        .group_by(Delivery.destination_id)
        .order_by("since")
    )


# Built once: it runs after every commit, and building it takes longer than running it.
_LOOKING = _looking()
_LOOKING_AT_ONE = _LOOKING.where(Delivery.destination_id == bindparam("destination_id"))


def _look(session: Session, now: datetime, destination_id: int | None = None) -> tuple[list[int], datetime | None]:
    """Return each destination's message that may be sent now, the longest due first, and when the next one may be."""
    latest = now + clock.WENT_BACK
    times = {
        "now": now,
        "latest_now": latest,
        "latest_lease": latest + timedelta(seconds=LEASE_SECONDS),
        "latest_wait": latest + LONGEST_WAIT,
    }
    if destination_id is None:
        rows = session.execute(_LOOKING, times).all()
    else:
        rows = session.execute(_LOOKING_AT_ONE, {**times, "destination_id": destination_id}).all()
    chosen = [row.tried_due if row.tried is not None else row.due for row in rows if not row.leased]
    following = min((row.following for row in rows if row.following is not None), default=None)
    return [delivery_id for delivery_id in chosen if delivery_id is not None], following


def cancel_all(session: Session, destination_id: int, now: datetime) -> int:
    """Cancel messages that wait for a deleted destination."""
    gone = update(Delivery).where(
        Delivery.destination_id == destination_id,
        Delivery.state.in_([DeliveryState.WAITING, DeliveryState.SENDING]),
    )
    result = session.execute(gone.values(state=DeliveryState.CANCELLED, ended_at=now, lease=None, lease_until=None))
    return cast("CursorResult[Any]", result).rowcount
