"""`holdfast serve`."""

import asyncio
import fcntl
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import FrameType

import structlog
from sqlalchemy.exc import SQLAlchemyError
from uvicorn.config import Config
from uvicorn.server import Server

from holdfast.access.first_admin import FirstAdmin, ensure_first_admin
from holdfast.composition import Service, register_secrets
from holdfast.entry import greeting, quick_start, startup
from holdfast.entry import logging as own_logging
from holdfast.entry.backlog import Backlog
from holdfast.entry.connection_gate import Bounds, Gate, connections_within, raise_descriptor_limit, trusted_networks
from holdfast.entry.guarded_http import guarded
from holdfast.entry.shared_folder import FolderNotShared, require_shared
from holdfast.errors import HoldfastError
from holdfast.settings import Settings
from holdfast.storage.migrate import StoreTooNew, migrate
from holdfast.storage.session import Database

KEEP_ALIVE_SECONDS = 75
GRACEFUL_SECONDS = 4
BACKLOG = 8192
TICK_SECONDS = 1.0

log = structlog.get_logger("holdfast")


class StopRequest:
    """A stop signal, noticed from the very beginning and in every phase."""

    def __init__(self) -> None:
        self._made = threading.Event()
        self._on_stop: Callable[[], None] = self._made.set
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._signalled)

    def _signalled(self, *_: object) -> None:
        self._made.set()
        self._on_stop()

    def wait(self) -> None:
        self._made.wait()

    def on_stop(self, call: Callable[[], None]) -> None:
        """Run `call` when the signal arrives, or now if it has already arrived."""
        self._on_stop = call
        if self._made.is_set():
            call()


class QuietServer(Server):
    """The HTTP server, waking up once a second for the date of its responses, and at once when it should stop.

    The library's own loop wakes up ten times a second, which was a fifth of an idle service's work.
    """

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._wake: Callable[[], object] = _nothing

    async def main_loop(self) -> None:
        stopped = asyncio.Event()
        self._wake = partial(asyncio.get_running_loop().call_soon_threadsafe, stopped.set)
        try:
            while not await self.on_tick(0):
                with suppress(TimeoutError):
                    await asyncio.wait_for(stopped.wait(), TICK_SECONDS)
        finally:
            self._wake = _nothing  # a signal may arrive when the event loop is closed

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self._wake()

    def stop(self) -> None:
        self.should_exit = True
        self._wake()


def _nothing() -> None:
    pass


def serve(settings: Settings) -> int:
    """Run the service until a signal stops it; return the exit code."""
    stop = StopRequest()
    os.umask(0o077)
    own_logging.configure(settings)
    try:
        return start(settings, stop)
    except startup.CannotStart as reason:
        print(f"holdfast: {reason}", file=sys.stderr)
        return reason.code


def start(settings: Settings, stop: StopRequest) -> int:
    """Check everything first, then create what is missing, then serve."""
    startup.check_role(settings)
    startup.check_secrets(settings)
    bound = startup.bind(settings.host, settings.port) if settings.role != "runner" else None
    startup.check_data_dir(settings.data_dir)
    startup.check_store(settings)
    prepare_data_dir(settings.data_dir)
    if not settings.database_url and not hold_data_dir(settings.data_dir):
        advice = "stop it first, or choose another --data-dir"
        raise startup.CannotStart(f"Another service is using {settings.data_dir}; {advice}.", startup.EXIT_BUSY)
    service, first = open_store(settings)
    quick_start.end()
    if bound is None:
        return run_without_http(service, first, stop)
    return run(service, first, bound, settings, stop)


def open_store(settings: Settings) -> tuple[Service, FirstAdmin | None]:
    register_secrets()
    database = Database(settings.store_url)
    try:
        migrate(database)
        require_shared(database, settings.data_dir)
        first = ensure_first_admin(database, settings)
        return Service(settings, database), first
    except (StoreTooNew, FolderNotShared, HoldfastError) as error:
        raise startup.CannotStart(str(error)) from error
    except SQLAlchemyError as error:
        raise startup.bad_store(settings, error) from error
    except OSError as error:
        raise startup.bad_data_dir(settings.data_dir, error) from error


def run(service: Service, first: FirstAdmin | None, bound: socket.socket, settings: Settings, stop: StopRequest) -> int:
    try:
        bound.listen(BACKLOG)  # now, so that readers of the address below can connect immediately
    except OSError as error:
        raise startup.no_address(settings.host, settings.port, error) from error
    host, port = bound.getsockname()[:2]
    print(greeting.of_service(host, port, first), flush=True)
    app = service.app()
    gate = Gate(bounds(settings, app.streamed_paths, app.steady_paths))
    server = QuietServer(
        Config(
            app,
            http=guarded(gate, Backlog(bound, gate.room)),
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=GRACEFUL_SECONDS,
            access_log=False,
            ws="none",
            log_config=None,
            server_header=False,
            # The server's own default trusts a forwarded address from any client on this machine.
            proxy_headers=settings.trusted_proxies is not None,
            forwarded_allow_ips=settings.trusted_proxies or "",
            backlog=BACKLOG,
        )
    )

    # The server handles signals only while it runs, and raises them again once it has stopped. A signal that arrives
    # earlier must not be lost, and one that arrives again must not end the process before the exit code is set.
    stop.on_stop(server.stop)
    server.run(sockets=[bound])
    return 0


def bounds(settings: Settings, streamed: tuple[str, ...], steady: tuple[str, ...]) -> Bounds:
    descriptors = raise_descriptor_limit(settings.connections)
    return Bounds(
        most=connections_within(settings.connections, descriptors),
        per_address=settings.connections_per_address,
        strangers_per_address=settings.unknown_connections_per_address,
        head_seconds=settings.request_head_seconds,
        body_seconds=settings.request_body_seconds,
        stall_seconds=settings.answer_stall_seconds,
        trusted=trusted_networks(settings.trusted_proxies),
        streamed=streamed,
        steady=steady,
    )


def run_without_http(service: Service, first: FirstAdmin | None, stop: StopRequest) -> int:
    service.start()
    print(greeting.of_runner(first), flush=True)
    stop.wait()
    service.stop()
    return 0


def prepare_data_dir(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.chmod(0o700)
    except OSError as error:
        raise startup.bad_data_dir(folder, error) from error


def hold_data_dir(folder: Path) -> bool:
    """Lock the data folder for the lifetime of this process. Return False if another service has locked it."""
    descriptor = os.open(folder / "serve.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return False
    return True
