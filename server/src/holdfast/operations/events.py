"""Live events: each process reads the outbox once and sends the rows to every open stream that may see them."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import structlog
from sqlalchemy import bindparam, func, select
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from backup_engine.frozen import frozen
from holdfast.access import rights
from holdfast.access.caller import Caller, reauthenticated, with_final_password
from holdfast.access.roles import Role
from holdfast.api.parts import Part
from holdfast.errors import Forbidden, TooManyRequests, Unauthenticated, Unavailable
from holdfast.kit.per_user import PerUserCount
from holdfast.kit.supervisor import Supervisor
from holdfast.operations.models import Operation, OutboxEntry
from holdfast.operations.outbox import Topic
from holdfast.operations.present import Presenter
from holdfast.operations.readers import Horizon
from holdfast.operations.status import Status
from holdfast.settings import Settings
from holdfast.storage.session import Database

log = structlog.get_logger("holdfast.events")

POLL_SECONDS = 1.0
SOON_SECONDS = 0.05
SETTLE_SECONDS = 1.0
MOST_WAITING = 1000
MOST_REPLAYED = 5000
KEEPALIVE_SECONDS = 15.0
CHECK_SECONDS = 2.0


Unstored = Literal["hello", "reset", "session.ended", "operation.progress", "operations.progress", "overview.updated"]
"""Events that are not in the outbox. The first three concern the stream itself and are sent whatever its topics are."""

FOR_EVERYONE = frozenset({"queue.updated", "schedule.updated"})
"""Topics whose payload reveals nothing that is hidden from any user."""
NOT_IN_THE_OVERVIEW = frozenset({"queue.updated", "operation.progress", "notification.delivery", "user.updated"})


@frozen
class LiveEvent:
    """One event. `repository_id` decides who may see it; without one, only admins, or all users if `for_everyone`."""

    id: int | None
    topic: Topic | Unstored
    repository_id: int | None
    data: dict[str, Any]
    for_everyone: bool = False

    def as_text(self) -> str:
        number = f"id: {self.id}\n" if self.id is not None else ""
        return f"{number}event: {self.topic}\ndata: {json.dumps(self.data, separators=(',', ':'))}\n\n"


@dataclass(eq=False, slots=True)
class Subscriber:
    """One open stream. `repositories` is None if the user may see all of them, `topics` is None for all topics."""

    caller: Caller
    repositories: frozenset[int] | None
    sees_unbound: bool
    loop: asyncio.AbstractEventLoop
    topics: frozenset[str] | None = None
    queue: "asyncio.Queue[LiveEvent | None]" = field(default_factory=lambda: asyncio.Queue(MOST_WAITING))

    def chosen(self, events: Iterable[LiveEvent]) -> list[LiveEvent]:
        """Return the events for this stream, plus a summary if anything that its user may see affects the overview."""
        seen = [event for event in events if self.may_see(event)]
        if any(event.topic not in NOT_IN_THE_OVERVIEW for event in seen):
            seen.append(LiveEvent(None, "overview.updated", None, {}))
        if self.topics is None:
            return seen
        if "operations.progress" in self.topics:
            seen += _together(event for event in seen if event.topic == "operation.progress")
        return [event for event in seen if event.topic in self.topics]

    def may_see(self, event: LiveEvent) -> bool:
        if event.repository_id is None:
            return self.sees_unbound or event.for_everyone
        return self.repositories is None or event.repository_id in self.repositories

    def offer(self, event: LiveEvent | None) -> None:
        """Queue an event, from the reading thread. A stream that falls behind is ended; its client resumes by id."""

        def put() -> None:
            try:
                self.queue.put_nowait(event)
            except asyncio.QueueFull:
                while not self.queue.empty():
                    self.queue.get_nowait()
                self.queue.put_nowait(None)

        self.loop.call_soon_threadsafe(put)


class EventHub:
    """Reads the outbox while streams are open; an idle service reads nothing."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        presenter: Presenter,
        supervisor: Supervisor,
        horizon: Horizon,
    ) -> None:
        self._settings = settings
        self._open = PerUserCount()
        """Number of open streams by user; used only on the event loop."""
        self._supervisor = supervisor
        self._database = database
        self._presenter = presenter
        self._subscribers: set[Subscriber] = set()
        self._guard = threading.Lock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._horizon = horizon
        self._last_id = 0
        self._progress: dict[int, Any] = {}

    def start(self) -> None:
        self._thread = self._supervisor.keep_running("events", self._read_forever)
        self._supervisor.every("event-credentials", CHECK_SECONDS, self._check_credentials)

    def stop(self) -> None:
        self._stopping.set()
        self._database.wake.notify()
        for subscriber in self._all():
            subscriber.offer(None)
        if self._thread is not None:
            self._thread.join(3)

    @contextmanager
    def turn(self, user_id: int) -> Iterator[None]:
        """Count a stream while it is open. Raise TooManyRequests or Unavailable if it would exceed a limit."""
        if self._open[user_id] >= self._settings.event_streams_per_user:
            raise TooManyRequests("events.too_many_streams", "You have too many open event streams.", retry_after=30)
        if self._open.total() >= self._settings.event_streams:
            raise Unavailable("events.too_many_streams", "Too many event streams are open.", retry_after=30)
        with self._open.one(user_id):
            yield

    def subscribe(self, subscriber: Subscriber) -> int:
        """Add a stream and return this process's position. The stream receives everything after it."""
        with self._guard:
            if not self._subscribers:
                self._last_id = self._horizon.settle(SETTLE_SECONDS)  # existing rows are old news
            self._subscribers.add(subscriber)
            position = self._last_id
        self._database.wake.notify()
        return position

    def unsubscribe(self, subscriber: Subscriber) -> None:
        with self._guard:
            self._subscribers.discard(subscriber)

    def replay(self, after: int, subscriber: Subscriber) -> tuple[list[LiveEvent], int]:
        """Given the last id of a returning client, return the missed events and the id up to which they are complete.

        If the missed events are no longer stored, the result is a single `reset`.
        """
        complete = self._horizon.refresh()
        with self._database.reading() as session:
            if not _is_known(session, after):
                return [LiveEvent(complete, "reset", None, {})], complete
            rows = list(session.execute(_BETWEEN, {"after": after, "last": complete}).scalars())
            if len(rows) >= MOST_REPLAYED:
                return [LiveEvent(complete, "reset", None, {})], complete
            events = self._present(session, rows)
        return subscriber.chosen(events), max(after, complete)

    def _all(self) -> list[Subscriber]:
        with self._guard:
            return list(self._subscribers)

    def _check_credentials(self) -> None:
        """End streams whose credential is no longer valid, and apply changes of their users' rights to the others."""
        by_credential: dict[tuple[int | None, int | None], list[Subscriber]] = {}
        for subscriber in self._all():
            caller = subscriber.caller
            by_credential.setdefault((caller.session_id, caller.account_token_id), []).append(subscriber)
        if not by_credential:
            return
        with self._database.reading() as session:
            for subscribers in by_credential.values():
                try:
                    now = with_final_password(reauthenticated(session, self._settings, subscribers[0].caller))
                except (Unauthenticated, Forbidden) as error:
                    for subscriber in subscribers:
                        subscriber.offer(LiveEvent(None, "session.ended", None, {"reason": error.key}))
                        subscriber.offer(None)
                    continue
                visible = rights.visible_repositories(session, now)
                for subscriber in subscribers:
                    subscriber.repositories = visible
                    subscriber.sees_unbound = now.role is Role.ADMIN

    def _read_forever(self) -> None:
        seen = -1
        while not self._stopping.is_set():
            soon = self._subscribers and self._horizon.is_waiting
            seen = self._database.wake.wait(seen, SOON_SECONDS if soon else POLL_SECONDS)
            self._supervisor.attempt("events", self._hand_out)

    def _hand_out(self) -> None:
        """Send new events to every open stream. A stream that subscribes meanwhile gets those after this position."""
        with self._guard:
            subscribers = list(self._subscribers)
            if not subscribers:
                return
            events, self._last_id = self._new_events(self._last_id)
        for subscriber in subscribers if events else ():
            for event in subscriber.chosen(events):
                subscriber.offer(event)

    def _new_events(self, after: int) -> tuple[list[LiveEvent], int]:
        """Return the events after a position, and the position after them."""
        complete = self._horizon.refresh()
        with self._database.reading() as session:
            rows = list(session.execute(_BETWEEN, {"after": after, "last": complete}).scalars())
            events = [*self._present(session, rows), *self._progress_events(session)]
        return events, rows[-1].id if len(rows) >= MOST_REPLAYED else max(after, complete)

    def _present(self, session: Session, rows: Iterable[OutboxEntry]) -> list[LiveEvent]:
        """Turn rows into events. Those of operations carry the operation's current state; unstored ones are dropped."""
        rows = list(rows)
        wanted = {row.operation_id for row in rows if row.operation_id is not None}
        kept = select(Operation).where(Operation.id.in_(wanted), Operation.executor != "inline")
        items = {item.id: item for item in self._presenter.items(session, list(session.scalars(kept)))}
        events = []
        for row in rows:
            data = row.payload
            if row.operation_id is not None:
                if row.operation_id not in items:
                    continue
                data = {**data, "operation": items[row.operation_id].model_dump(mode="json")}
            topic = cast("Topic", row.topic)
            events.append(LiveEvent(row.id, topic, row.repository_id, data, for_everyone=topic in FOR_EVERYONE))
        return [*events, *_queue_events(events)]

    def _progress_events(self, session: Session) -> list[LiveEvent]:
        """Return changed progress. Progress is stored at most once a second, so it is sent no more often."""
        running = session.execute(_RUNNING_PROGRESS).all()
        events = [
            LiveEvent(None, "operation.progress", row.repository_id, {"id": row.id, "progress": row.progress})
            for row in running
            if row.progress is not None and self._progress.get(row.id) != row.progress
        ]
        self._progress = {row.id: row.progress for row in running}
        return events


EVENT_HUB = Part[EventHub]("event_hub")


async def stream(hub: EventHub, subscriber: Subscriber, after: int | None) -> AsyncIterator[str]:
    """Yield the text of one event stream, until the client disconnects or the service stops."""
    try:
        position = await run_in_threadpool(
            hub.subscribe, subscriber
        )  # runs to its end even if the task is cancelled, so nothing stays behind
        hello = LiveEvent(position if after is None else None, "hello", None, {"id": position})
        yield f": connected\nretry: 2000\n\n{hello.as_text()}"
        replayed = 0
        if after is not None:
            events, replayed = await run_in_threadpool(hub.replay, after, subscriber)
            for event in events:
                yield event.as_text()
        while True:
            try:
                next_event = await asyncio.wait_for(subscriber.queue.get(), KEEPALIVE_SECONDS)
            except TimeoutError:
                yield ": still here\n\n"
                continue
            if next_event is None:
                return
            if next_event.id is None or next_event.id > replayed:
                yield next_event.as_text()
    finally:
        hub.unsubscribe(subscriber)


def _together(progress: Iterable[LiveEvent]) -> list[LiveEvent]:
    """Combine the progress of all operations into one event, for streams that request it."""
    operations = [event.data for event in progress]
    return [LiveEvent(None, "operations.progress", None, {"operations": operations})] if operations else []


def _queue_events(events: Iterable[LiveEvent]) -> list[LiveEvent]:
    """Return an event for each repository whose operations changed. These events are not stored, so they have no id."""
    changed = dict.fromkeys(event.repository_id for event in events if event.topic == "operation.updated")
    return [
        LiveEvent(None, "queue.updated", number, {"repository_id": number, "change": "operations"})
        for number in changed
    ]


def _is_known(session: Session, after: int) -> bool:
    """Whether everything after this id is still stored: its row exists, or it directly precedes the oldest row."""
    oldest = session.scalar(_OLDEST)
    first = 1 if oldest is None else oldest
    return after == first - 1 or session.scalar(_EXISTS, {"id": after}) is not None


_BETWEEN = (
    select(OutboxEntry)
    .where(OutboxEntry.id > bindparam("after"), OutboxEntry.id <= bindparam("last"))
    .order_by(OutboxEntry.id)
    .limit(MOST_REPLAYED)
)
_OLDEST = select(func.min(OutboxEntry.id))
_EXISTS = select(OutboxEntry.id).where(OutboxEntry.id == bindparam("id"))
_RUNNING_PROGRESS = select(Operation.id, Operation.repository_id, Operation.progress).where(
    Operation.status == Status.RUNNING
)
