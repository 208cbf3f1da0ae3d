"""Work for the service until stopped: the long-lived loop of a managed machine.

SIGTERM and SIGINT stop it within seconds; running engines continue, and the next start finds them again.
"""

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from backup_agent import config
from backup_agent.agent import Agent
from backup_agent.client import Client
from backup_agent.commands.locking import hand_on, only_agent
from backup_agent.places import Places

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

log = logging.getLogger(__name__)

LEVELS = ("debug", "info", "warning", "error")
DEFAULT_LEVEL = "info"


def add_arguments(parser: "ArgumentParser") -> None:
    add_log_level(parser)


def run(places: Places, arguments: "Namespace | None") -> int:
    start_logging(arguments.log_level if arguments else DEFAULT_LEVEL)
    with only_agent(places) as lock:
        while True:
            agent = agent_of(places)
            with stopped_by_signals(agent) as received:
                log.info("The agent is running; SIGTERM stops it.")
                starts_anew = agent.run()
            if received or not starts_anew:
                return 0
            start_anew(lock)


def start_anew(lock: int) -> None:
    """Replace this process by a fresh agent. Returns only if that fails."""
    try:
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], hand_on(lock))
    except OSError as error:
        os.set_inheritable(lock, False)
        log.warning("The agent continues without a restart: %s", error)


def agent_of(places: Places) -> Agent:
    kept = config.with_environment(config.load(places))
    return Agent(places, kept, Client(kept.server_url, kept.credential, kept.ca_file))


@contextmanager
def stopped_by_signals(agent: Agent) -> Iterator[list[int]]:
    """Stop the agent on SIGTERM and SIGINT while this context is open. Yields the list of received signals.

    A handler may interrupt the main thread while it has a lock that stopping the agent needs. So handlers only record
    the signal, and a thread waits for the byte that the interpreter writes when a signal arrives.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)

    def wait() -> None:
        if os.read(reading, 1):
            agent.stop()
        os.close(reading)

    threading.Thread(target=wait, name="signals", daemon=True).start()
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    received: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        del frame
        received.append(number)

    handlers = {number: signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield received
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(before)
        os.close(writing)


def add_log_level(parser: "ArgumentParser") -> None:
    parser.add_argument("--log-level", choices=LEVELS, default=DEFAULT_LEVEL, help="level of detail (default: info)")


def start_logging(level: str) -> None:
    """Log to standard error. Under systemd the lines carry no times, since the journal adds them."""
    under_journal = "JOURNAL_STREAM" in os.environ
    form = "%(levelname)s %(message)s" if under_journal else "%(asctime)s %(levelname)s %(message)s"
    logging.basicConfig(level=level.upper(), format=form, stream=sys.stderr)
