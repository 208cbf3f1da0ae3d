"""The HTTP server wakes up rarely, but stops at once."""

import asyncio
import signal
import threading
from collections.abc import Callable

import pytest
from uvicorn.config import Config

from holdfast.entry import serve
from holdfast.entry.serve import QuietServer
from tests.support.service import PATIENCE


@pytest.mark.parametrize(
    "stop",
    [lambda server: server.stop(), lambda server: server.handle_exit(signal.SIGTERM, None)],
    ids=["a stop request", "a signal"],
)
def test_a_request_to_stop_ends_the_loop_without_waiting_for_its_next_tick(
    monkeypatch: pytest.MonkeyPatch, stop: Callable[[QuietServer], None]
) -> None:
    monkeypatch.setattr(serve, "TICK_SECONDS", 10 * PATIENCE)
    server = QuietServer(Config(app=lambda: None))
    loop = threading.Thread(target=lambda: asyncio.run(server.main_loop()), daemon=True)
    loop.start()
    loop.join(0.2)
    assert loop.is_alive()

    stop(server)
    loop.join(PATIENCE)
    assert not loop.is_alive()
    stop(server)  # an impatient second signal, when the event loop is closed, changes nothing


def test_a_server_that_was_stopped_before_it_ran_does_not_wait_for_a_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "TICK_SECONDS", 10 * PATIENCE)
    server = QuietServer(Config(app=lambda: None))
    server.stop()
    asyncio.run(asyncio.wait_for(server.main_loop(), PATIENCE))
