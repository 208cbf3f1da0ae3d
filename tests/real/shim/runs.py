"""Runs under a shim, and helpers to observe them."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from backup_engine import shim
from backup_engine.command import Command
from backup_engine.process import (
    Spool,
    SpoolState,
    _command_record,
)
from tests.support.service import PATIENCE, wait_until

NO_SECRETS = b"{}\n"


def end_all_of(spool: Spool) -> None:
    """Leave nothing behind, whatever the test did: kill the engine's group first, then the shim."""
    spool.signal_engine(signal.SIGKILL)
    started = read_json(spool.folder / "started.json")
    if started and spool.is_alive():
        with contextlib.suppress(ProcessLookupError):
            os.kill(started["shim_pid"], signal.SIGKILL)
    spool.signal_engine(signal.SIGKILL)


def shell(script: str, **more: object) -> Command:
    return Command(argv=("/bin/sh", "-c", script), environment={"PATH": os.environ["PATH"]}, **more)  # type: ignore[arg-type]


def read_json(path: Path) -> dict[str, int] | None:
    try:
        record: dict[str, int] = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    return record


def engine_pid(spool: Spool) -> int:
    return wait_until(lambda: read_json(spool.folder / "engine.json"), what="the engine has a pid")["pid"]


def shim_pid(spool: Spool) -> int:
    return wait_until(lambda: read_json(spool.folder / "started.json"), what="the shim runs")["shim_pid"]


def said(spool: Spool, text: str) -> None:
    wait_until(lambda: text in content(spool.out), pause=0.01, what=f"the engine says {text}")


def content(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def ended(spool: Spool) -> SpoolState:
    wait_until(lambda: not spool.is_alive(), pause=0.01, what="nothing of the run is alive")
    return spool.settle()


def run(spool: Spool, command: Command) -> SpoolState:
    assert spool.launch(command).wait(PATIENCE)
    return ended(spool)


def is_running(pid: int) -> bool:
    """Also False for a zombie, which no longer runs."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def gone(pid: int) -> None:
    wait_until(lambda: not is_running(pid), pause=0.01, what=f"process {pid} is gone")


def write_command(spool: Spool, command: Command) -> None:
    """Do what a launch does before it starts the shim."""
    spool.folder.mkdir(parents=True, exist_ok=True)
    spool._write("command.json", _command_record(command))


def start_shim(spool: Spool, secrets: bytes = NO_SECRETS) -> "subprocess.Popen[bytes]":
    """Start a shim on the spool as a starter does, and send it these bytes."""
    reading, writing = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", shim.__file__, str(spool.folder), str(reading)],
        pass_fds=(reading,),
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.close(reading)
    with contextlib.suppress(BrokenPipeError), os.fdopen(writing, "wb") as pipe:
        pipe.write(secrets)
    return process
