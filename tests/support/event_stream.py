"""A client of the event stream that reads in the background, so that a test can wait for what it expects."""

import contextlib
import json
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import httpx2
from pydantic import ValidationError

from holdfast.operations.event_schemas import EVENTS
from tests.support.service import PATIENCE, Client, wait_until


@dataclass(frozen=True)
class Event:
    id: int | None
    topic: str
    data: dict[str, Any]


class EventStream:
    """Connects on `__enter__`, which returns when the stream has been answered.

    Every event is checked against its schema. `hello` is stored separately.
    """

    def __init__(self, client: Client, **request: Any) -> None:
        self.events: list[Event] = []
        self.hello: Event | None = None
        self.wrong: list[str] = []
        self._client = client
        self._request = request
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._connected = threading.Event()
        self.answer: httpx2.Response | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._connected.wait(PATIENCE), "the stream is not answered"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.answer is not None and not self._ended.is_set():
            # Closing the answer would not wake the thread that is waiting for its next line.
            connection: socket.socket = self.answer.extensions["network_stream"].get_extra_info("socket")
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._thread.join(PATIENCE)
        assert not self.wrong

    def wait_for(self, wanted: Callable[[Event], bool], seconds: float = PATIENCE) -> Event:
        return wait_until(
            lambda: next((event for event in list(self.events) if wanted(event)), None),
            seconds,
            what=f"an event among {len(self.events)}",
        )

    def wait_for_hello(self) -> Event:
        return wait_until(lambda: self.hello, what="the first event")

    def of(self, topic: str) -> list[Event]:
        return [event for event in self.events if event.topic == topic]

    def wait_for_status(self, job_id: int, status: str) -> Event:
        return self.wait_for(
            lambda event: (
                event.topic == "operation.updated" and (event.data["id"], event.data["status"]) == (job_id, status)
            )
        )

    def wait_for_end(self, seconds: float = PATIENCE) -> None:
        """Wait until the service has closed the stream."""
        assert self._ended.wait(seconds), "the stream goes on"

    def statuses_of(self, job_id: int) -> list[str]:
        updates = [event for event in self.events if event.topic == "operation.updated"]
        return [event.data["status"] for event in updates if event.data["id"] == job_id]

    def _read(self) -> None:
        try:
            with self._client.stream("GET", "/api/events/stream", timeout=None, **self._request) as answer:
                self.answer = answer
                self._take(answer)
        except (httpx2.TransportError, httpx2.StreamError):
            return
        finally:
            self._connected.set()
            self._ended.set()

    def _take(self, answer: httpx2.Response) -> None:
        fields: dict[str, str] = {}
        for line in answer.iter_lines():
            self._connected.set()
            name, _, value = line.partition(": ")
            if line and name:
                fields[name] = value
            elif not line and "event" in fields:
                number = int(fields["id"]) if "id" in fields else None
                self._note(Event(number, fields["event"], json.loads(fields["data"])))
                fields = {}

    def _note(self, event: Event) -> None:
        schema = EVENTS[event.topic]
        try:
            schema.model_validate(event.data)
        except ValidationError as error:
            self.wrong.append(f"{event.topic}: {error}")
        if more := set(event.data) - set(schema.model_fields):
            self.wrong.append(f"{event.topic} has {more}, which its schema lacks")
        if event.topic == "hello":
            self.hello = event
        else:
            self.events.append(event)
