"""Live events: the outbox, read once per process and handed to every open stream that may see it."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from typing import Any

import structlog
from sqlalchemy import bindparam, delete, func, select
from sqlalchemy.orm import Session

from holdfast.errors import Unavailable
from holdfast.operations.models import Operation, OutboxEntry
from holdfast.operations.present import Presenter
from holdfast.operations.status import Status
from holdfast.storage.session import Database

log = structlog.get_logger("holdfast.events")

POLL_SECONDS = 1.0
LATE_COMMIT_WINDOW = 500
"""On PostgreSQL a lower id may become visible after a higher one: this many ids are looked at again."""
MOST_WAITING = 1000
MOST_REPLAYED = 5000
KEEPALIVE_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class LiveEvent:
    id: int | None
    topic: str
    repository_id: int | None
    data: dict[str, Any]

    def as_text(self) -> str:
        number = f"id: {self.id}\n" if self.id is not None else ""
        return f"{number}event: {self.topic}\ndata: {json.dumps(self.data, separators=(',', ':'))}\n\n"


@dataclass(eq=False, slots=True)
class Subscriber:
    """One open stream. `repositories` is None for whoever may see all of them."""

    repositories: frozenset[int] | None
    sees_unbound: bool
    loop: asyncio.AbstractEventLoop
    queue: "asyncio.Queue[LiveEvent | None]" = field(default_factory=lambda: asyncio.Queue(MOST_WAITING))

    def may_see(self, event: LiveEvent) -> bool:
        if event.repository_id is None:
            return self.sees_unbound
        return self.repositories is None or event.repository_id in self.repositories

    def offer(self, event: LiveEvent | None) -> None:
        """Called from the reading thread. A stream that does not keep up is ended; its client resumes by id."""

        def put() -> None:
            try:
                self.queue.put_nowait(event)
            except asyncio.QueueFull:
                while not self.queue.empty():
                    self.queue.get_nowait()
                self.queue.put_nowait(None)

        self.loop.call_soon_threadsafe(put)


class EventHub:
    """Reads the outbox while anybody listens; an idle service reads nothing."""

    def __init__(self, database: Database, presenter: Presenter) -> None:
        self._database = database
        self._presenter = presenter
        self._subscribers: set[Subscriber] = set()
        self._guard = threading.Lock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._last_id = 0
        self._seen: set[int] = set()
        self._progress: dict[int, Any] = {}

    def start(self) -> None:
        with self._database.reading() as session:
            self._last_id = newest_id(session)
        self._thread = threading.Thread(target=self._read_forever, name="events", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._database.wake.notify()
        for subscriber in self._all():
            subscriber.offer(None)
        if self._thread is not None:
            self._thread.join(3)

    def subscribe(self, subscriber: Subscriber) -> None:
        with self._guard:
            if not self._subscribers:
                self._begin_now()
            self._subscribers.add(subscriber)
        self._database.wake.notify()

    def unsubscribe(self, subscriber: Subscriber) -> None:
        with self._guard:
            self._subscribers.discard(subscriber)

    def replay(self, after: int, subscriber: Subscriber) -> list[LiveEvent]:
        """What a returning client has missed; a `reset` where that is no longer known."""
        with self._database.reading() as session:
            oldest = session.scalar(select(func.min(OutboxEntry.id)))
            rows = list(session.execute(_AFTER, {"after": after}).scalars())
            if (oldest is not None and after < oldest - 1) or len(rows) >= MOST_REPLAYED:
                return [LiveEvent(newest_id(session), "reset", None, {})]
            events = self._present(session, rows)
        return [event for event in events if subscriber.may_see(event)]

    def _begin_now(self) -> None:
        """What is in the outbox already is not news, also not within the window that is looked at again."""
        with self._database.reading() as session:
            self._last_id = newest_id(session)
            self._seen = set(session.scalars(_IDS_AFTER, {"after": self._last_id - LATE_COMMIT_WINDOW}))

    def _all(self) -> list[Subscriber]:
        with self._guard:
            return list(self._subscribers)

    def _read_forever(self) -> None:
        seen = -1
        while not self._stopping.is_set():
            seen = self._database.wake.wait(seen, POLL_SECONDS)
            subscribers = self._all()
            if not subscribers:
                continue
            try:
                events = self._new_events()
            except Unavailable:
                self._stopping.wait(1.0)
                continue
            for event in events:
                for subscriber in subscribers:
                    if subscriber.may_see(event):
                        subscriber.offer(event)

    def _new_events(self) -> list[LiveEvent]:
        with self._database.reading() as session:
            late = 0 if self._database.is_sqlite else LATE_COMMIT_WINDOW
            rows = [
                row
                for row in session.execute(_AFTER, {"after": max(0, self._last_id - late)}).scalars()
                if row.id not in self._seen and (row.id > self._last_id or late)
            ]
            if rows:
                self._last_id = max(self._last_id, rows[-1].id)
                self._seen.update(row.id for row in rows)
                self._seen = {number for number in self._seen if number > self._last_id - LATE_COMMIT_WINDOW}
            return [*self._present(session, rows), *self._progress_events(session)]

    def _present(self, session: Session, rows: Iterable[OutboxEntry]) -> list[LiveEvent]:
        """Events of operations carry the operation as it is now. One that is not kept has no end that could be told."""
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
            events.append(LiveEvent(row.id, row.topic, row.repository_id, data))
        return events

    def _progress_events(self, session: Session) -> list[LiveEvent]:
        """Progress is stored at most once a second, so that is as often as it is told."""
        running = session.execute(_RUNNING_PROGRESS).all()
        events = [
            LiveEvent(None, "operation.progress", row.repository_id, {"id": row.id, "progress": row.progress})
            for row in running
            if row.progress is not None and self._progress.get(row.id) != row.progress
        ]
        self._progress = {row.id: row.progress for row in running}
        return events


async def stream(hub: EventHub, subscriber: Subscriber, after: int | None) -> AsyncIterator[str]:
    """The text of one event stream, until the client goes or the service stops."""
    await asyncio.to_thread(hub.subscribe, subscriber)
    try:
        yield ": connected\nretry: 2000\n\n"
        told = 0
        if after is not None:
            for event in await asyncio.to_thread(hub.replay, after, subscriber):
                told = max(told, event.id or 0)
                yield event.as_text()
        while True:
            try:
                next_event = await asyncio.wait_for(subscriber.queue.get(), KEEPALIVE_SECONDS)
            except TimeoutError:
                yield ": still here\n\n"
                continue
            if next_event is None:
                return
            if next_event.id is None or next_event.id > told:
                yield next_event.as_text()
    finally:
        hub.unsubscribe(subscriber)


def newest_id(session: Session) -> int:
    return session.scalar(select(func.max(OutboxEntry.id))) or 0


def forget_old(session: Session, before: Any) -> None:
    session.execute(delete(OutboxEntry).where(OutboxEntry.created_at < before))


_AFTER = select(OutboxEntry).where(OutboxEntry.id > bindparam("after")).order_by(OutboxEntry.id).limit(MOST_REPLAYED)
_IDS_AFTER = select(OutboxEntry.id).where(OutboxEntry.id > bindparam("after"))
_RUNNING_PROGRESS = select(Operation.id, Operation.repository_id, Operation.progress).where(
    Operation.status == Status.RUNNING
)
