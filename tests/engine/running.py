"""Run a command of the real engine as the shim does, and determine its outcome."""

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from backup_engine.command import Command
from backup_engine.detect import detect
from backup_engine.environment import EngineEnvironment
from backup_engine.events import Event
from backup_engine.interface import Engine, engine_for
from backup_engine.outcome import Accumulator, Outcome, conclude
from backup_engine.parse import parse_line
from tests.support.engines import ENGINES

SECONDS_PER_RUN = 120


@dataclass(frozen=True)
class Ended:
    stdout: bytes
    events: tuple[Event, ...]
    outcome: Outcome


def programs() -> dict[str, str]:
    """The configured engine, and one of each series installed on this machine."""
    configured = os.environ.get("HOLDFAST_BORG1")
    return {**({"configured": configured} if configured else {}), **{name: str(path) for name, path in ENGINES.items()}}


def real_engine(program: str, folder: Path) -> Engine:
    return engine_for(detect(program, str(folder)), EngineEnvironment(str(folder / "base"), "tests@1"), lock_wait=1)


def run(
    command: Command, interfere: Callable[[subprocess.Popen[bytes]], None] | None = None, *, cancel: bool = False
) -> Ended:
    environment = dict(command.environment)
    descriptors = []
    for name, secret in command.secrets.items():
        value = secret.value.encode("utf-8", "surrogateescape")
        if secret.delivery == "environment":
            environment[name] = os.fsdecode(value)
            continue
        reading, writing = os.pipe()
        os.write(writing, value)
        os.close(writing)
        descriptors.append(reading)
        environment[name] = str(reading)
    process = subprocess.Popen(
        [os.fsencode(argument) for argument in command.argv],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        pass_fds=descriptors,
        cwd=command.working_directory,
        start_new_session=True,
    )
    for descriptor in descriptors:
        os.close(descriptor)
    if interfere is not None:
        interfere(process)
    stdout, stderr = process.communicate(timeout=SECONDS_PER_RUN)
    events = tuple(parse_line(line) for line in stderr.splitlines())
    code = process.returncode
    outcome = conclude(
        code if code >= 0 else None, -code if code < 0 else None, Accumulator().add_all(events), cancel_requested=cancel
    )
    return Ended(stdout, events, outcome)
