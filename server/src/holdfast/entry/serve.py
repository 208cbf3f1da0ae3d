"""`holdfast serve`."""

import fcntl
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import structlog
import uvicorn

from holdfast.access.first_admin import ensure_first_admin
from holdfast.composition import Service, register_secrets
from holdfast.entry import logging as own_logging
from holdfast.entry import quick_start
from holdfast.errors import HoldfastError
from holdfast.settings import Settings
from holdfast.storage.migrate import StoreTooNew, migrate
from holdfast.storage.session import Database

EXIT_BUSY = 75
EXIT_UNUSABLE = 78
KEEP_ALIVE_SECONDS = 75
GRACEFUL_SECONDS = 4
BACKLOG = 8192

log = structlog.get_logger("holdfast")


class StopRequest:
    """A signal to stop, heard from the first moment on, whatever the service is at."""

    def __init__(self) -> None:
        self._made = threading.Event()
        self._tell: Callable[[], None] = self._made.set
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._hear)

    def _hear(self, *_: object) -> None:
        self._made.set()
        self._tell()

    def wait(self) -> None:
        self._made.wait()

    def pass_on(self, tell: Callable[[], None]) -> None:
        """Call `tell` when the signal comes, or now if it has come already."""
        self._tell = tell
        if self._made.is_set():
            tell()


def serve(settings: Settings) -> int:
    """Run the service until it is told to stop; return the exit code."""
    stop = StopRequest()
    os.umask(0o077)
    own_logging.configure(settings)
    prepare_data_dir(settings.data_dir)
    if not settings.database_url and not hold_data_dir(settings.data_dir):
        print(
            f"holdfast: another service runs on {settings.data_dir}; stop it first, or choose another --data-dir.",
            file=sys.stderr,
        )
        return EXIT_BUSY
    register_secrets()
    database = Database(settings.store_url)
    try:
        migrate(database)
        first = ensure_first_admin(database, settings)
        service = Service(settings, database)
    except (StoreTooNew, HoldfastError) as error:
        print(f"holdfast: {error}", file=sys.stderr)
        return EXIT_UNUSABLE
    quick_start.end()
    if first is not None:
        print(first.announcement(to_terminal=sys.stdout.isatty()), flush=True)
    return run(service, settings, stop)


def run(service: Service, settings: Settings, stop: StopRequest) -> int:
    if settings.role == "runner":
        return run_without_http(service, stop)
    listening = listen(settings)
    if listening is None:
        return EXIT_BUSY
    host, port = listening.getsockname()[:2]
    print(f"Holdfast is listening on http://{host}:{port}", flush=True)
    server = uvicorn.Server(
        uvicorn.Config(
            service.app(),
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=GRACEFUL_SECONDS,
            access_log=False,
            ws="none",
            log_config=None,
            server_header=False,
            # The server's own default believes anybody on this machine about whom they speak for.
            proxy_headers=settings.trusted_proxies is not None,
            forwarded_allow_ips=settings.trusted_proxies or "",
            backlog=BACKLOG,
        )
    )

    # The server listens to signals only while it runs, and raises them again once it has stopped: one that comes earlier
    # must not be lost, and one that comes again must not end the process before the exit code is set.
    stop.pass_on(lambda: setattr(server, "should_exit", True))
    server.run(sockets=[listening])
    return 0


def run_without_http(service: Service, stop: StopRequest) -> int:
    service.start()
    print("Holdfast runner is working", flush=True)
    stop.wait()
    service.stop()
    return 0


def listen(settings: Settings) -> socket.socket | None:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host, settings.port))
        listening.listen(BACKLOG)  # now, so that whoever reads the address below may connect at once
    except OSError as error:
        print(f"holdfast: cannot listen on {settings.host}:{settings.port}: {error.strerror}", file=sys.stderr)
        listening.close()
        return None
    return listening


def prepare_data_dir(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.chmod(0o700)


def hold_data_dir(folder: Path) -> bool:
    """Hold the data folder for as long as this process lives. False when another service holds it."""
    descriptor = os.open(folder / "serve.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return False
    return True
