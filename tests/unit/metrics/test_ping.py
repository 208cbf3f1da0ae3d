"""The ping: sent while the service is healthy, limited in time, and never to another address."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from sqlalchemy import insert

from holdfast.kit import clock
from holdfast.kit.supervisor import Supervisor
from holdfast.metrics import ping
from holdfast.metrics.ping import Ping
from holdfast.schedules.models import ScheduleState
from holdfast.storage.session import Database


@contextmanager
def watcher(status: int, headers: dict[str, str] | None = None) -> Iterator[tuple[str, list[str]]]:
    asked: list[str] = []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()


def test_a_healthy_service_calls_its_url(database: Database) -> None:
    with watcher(200) as (url, asked):
        assert Ping(f"{url}/uuid?x=1", database, Supervisor()).step()
    assert asked == ["/uuid?x=1"]


def test_redirects_are_not_followed(database: Database) -> None:
    with watcher(200) as (elsewhere, led), watcher(302, {"Location": f"{elsewhere}/led"}) as (url, asked):
        assert not Ping(url, database, Supervisor()).step()
    assert (asked, led) == (["/"], [])


def test_an_unreachable_or_silent_watcher_causes_no_error(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ping, "ANSWER_SECONDS", 0.2)
    assert not Ping("http://127.0.0.1:9/", database, Supervisor()).step()
    assert not Ping("ftp://127.0.0.1/", database, Supervisor()).step()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert not Ping(f"http://127.0.0.1:{silent.getsockname()[1]}/", database, Supervisor()).step()


def test_the_ping_is_not_sent_while_there_is_trouble(database: Database) -> None:
    called: list[str] = []
    supervisor = Supervisor()

    def call(url: str) -> int:
        called.append(url)
        return 200

    one = Ping("http://127.0.0.1/", database, supervisor, call)
    with database.writing() as session:
        session.execute(insert(ScheduleState).values(id=1, paused=False, last_tick_at=clock.now()))
    assert one.step()
    assert one.trouble(clock.now() + timedelta(minutes=6)) == "schedules are not checked"
    for _ in range(ping.KEEPS_FAILING):
        supervisor._of("runner").failed(RuntimeError("no"))
    assert not one.step()
    supervisor.record_working("runner")
    assert one.step()
    assert len(called) == 2


def test_the_ping_is_not_sent_while_the_store_cannot_be_reached() -> None:
    gone = Database("postgresql+psycopg://nobody@127.0.0.1:9/nothing")
    with watcher(200) as (url, asked):
        one = Ping(url, gone, Supervisor())

        assert one.trouble(clock.now()) == "the store cannot be reached"
        assert not one.step()
    assert asked == []
