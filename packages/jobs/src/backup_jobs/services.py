"""Query, stop and start the services of a machine through systemd."""

import os
import re
from collections.abc import Callable

from backup_engine import bounded
from backup_engine.environment import SEARCH_PATH
from backup_engine.frozen import frozen
from backup_engine.stream_reader import printable

UNIT_NAME = r"[A-Za-z0-9][A-Za-z0-9:_.@\\-]{0,240}\.(service|socket|timer|target|path)"
"""Only complete names, and only units that can be stopped and started."""
ASK_SECONDS = 30.0
CHANGE_SECONDS = 180.0
"""systemd gives a service 90 seconds to stop unless its unit specifies otherwise."""
SHOWN_CHARACTERS = 300
RUNNING = frozenset({"active", "activating", "reloading"})

CONTROL_GROUPS = "/proc/self/cgroup"
NOT_STOPPED = "backup.service_not_stopped"
UNKNOWN = "backup.service_unknown"
REFUSED = "backup.service_refused"


class NotStopped(Exception):
    """A service could not be stopped for a backup, or must not be."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key
        self.message = message


@frozen
class Answer:
    code: int | None
    """None if the program could not be run or did not end in time."""
    output: str

    @property
    def shown(self) -> str:
        """The end of the output on one line, for a message."""
        return printable(" ".join(self.output.split())[-SHOWN_CHARACTERS:]) or f"exit code {self.code}"


Control = Callable[[tuple[str, ...], float], Answer]
"""Runs a program on the services' machine, for at most this many seconds."""


def is_unit_name(name: str) -> bool:
    return re.fullmatch(UNIT_NAME, name) is not None


def is_running(control: Control, name: str) -> bool:
    """Whether a service is running. Raise NotStopped if the machine has no such service or cannot be queried."""
    answer = control(("systemctl", "show", "--property=LoadState,ActiveState", "--", name), ASK_SECONDS)
    facts = dict(line.split("=", 1) for line in answer.output.splitlines() if "=" in line)
    if answer.code != 0 or "ActiveState" not in facts:
        raise NotStopped(NOT_STOPPED, f"The state of {name} could not be read: {answer.shown}")
    if facts.get("LoadState") != "loaded":
        raise NotStopped(UNKNOWN, f"The machine has no service {name} that can be stopped and started.")
    return facts["ActiveState"] in RUNNING


def stop(control: Control, name: str) -> None:
    """Stop a service and wait until it has stopped. Raise NotStopped."""
    answer = control(("systemctl", "--no-ask-password", "stop", "--", name), CHANGE_SECONDS)
    if answer.code != 0:
        raise NotStopped(NOT_STOPPED, f"{name} could not be stopped: {answer.shown}")


def start(control: Control, name: str) -> str | None:
    """Start a service. Return why that failed, or None."""
    answer = control(("systemctl", "--no-ask-password", "start", "--", name), CHANGE_SECONDS)
    return None if answer.code == 0 else answer.shown


def is_own_unit(name: str) -> bool:
    """Whether this process runs in the unit, according to its control groups."""
    try:
        with open(CONTROL_GROUPS, encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - as elsewhere in the agent
            return any(name in line.rstrip("\n").split("/") for line in file)
    except OSError:
        return False


def control_here(argv: tuple[str, ...], seconds: float) -> Answer:
    """Run a program on this machine. Refuse to stop the unit of this process, which could not start it again."""
    if "stop" in argv and is_own_unit(argv[-1]):
        return Answer(None, "this program runs in it.")
    try:
        environment = {"PATH": os.environ.get("PATH", SEARCH_PATH), "LANG": "C.UTF-8"}
        ended = bounded.run(argv, b"", seconds, environment, start_new_session=True)
    except (bounded.TimeoutExpired, bounded.TooMuchOutput):
        return Answer(None, f"{argv[0]} did not end within {seconds:.0f} seconds.")
    except OSError as error:
        return Answer(None, f"{argv[0]} could not be run: {error.strerror}")
    return Answer(ended.returncode, (ended.stdout + ended.stderr).decode("utf-8", "replace"))
