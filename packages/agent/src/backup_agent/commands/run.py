"""Work for the service until told to stop: the long-lived loop of a managed machine.

SIGTERM and SIGINT stop it within seconds; engines that run go on, and the next start finds them again.
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
from backup_agent.commands.locking import only_agent
from backup_agent.places import Places

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

LEVELS = ("debug", "info", "warning", "error")
DEFAULT_LEVEL = "info"


def add_arguments(parser: "ArgumentParser") -> None:
    add_log_level(parser)


def run(places: Places, arguments: "Namespace | None") -> int:
    start_logging(arguments.log_level if arguments else DEFAULT_LEVEL)
    with only_agent(places):
        agent = agent_of(places)
        with stopped_by_signals(agent):
            logging.getLogger(__name__).info("The agent works; it is stopped with SIGTERM.")
            starts_anew = agent.run()
    if starts_anew:
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    return 0


def agent_of(places: Places) -> Agent:
    kept = config.with_environment(config.load(places))
    return Agent(places, kept, Client(kept.server_url, kept.credential, kept.ca_file))


@contextmanager
def stopped_by_signals(agent: Agent) -> Iterator[None]:
    """While this lasts, SIGTERM and SIGINT stop the agent.

    A handler runs in the middle of whatever the main thread does, which may hold a lock that stopping needs. So handlers do
    nothing, and a thread waits for what the interpreter writes when a signal comes.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)

    def wait() -> None:
        if os.read(reading, 1):
            agent.stop()
        os.close(reading)

    threading.Thread(target=wait, name="signals", daemon=True).start()
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    handlers = {number: signal.signal(number, _ignored) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(before)
        os.close(writing)


def _ignored(number: int, frame: FrameType | None) -> None:
    pass


def add_log_level(parser: "ArgumentParser") -> None:
    parser.add_argument("--log-level", choices=LEVELS, default=DEFAULT_LEVEL, help="how much to tell (default: info)")


def start_logging(level: str) -> None:
    """To standard error. Under systemd the journal has the times."""
    under_journal = "JOURNAL_STREAM" in os.environ
    form = "%(levelname)s %(message)s" if under_journal else "%(asctime)s %(levelname)s %(message)s"
    logging.basicConfig(level=level.upper(), format=form, stream=sys.stderr)
