"""Run one PostgreSQL server as long as standard input stays open, then stop it and remove its folder.

Started by `tests.support.postgres` in a new session. The other end of standard input belongs to the process that wants
the server: when that process ends, in whatever way, this one sees the end of input and cleans up. If this one is
killed, the kernel ends the server (PR_SET_PDEATHSIG), and the next start of a server removes the folder.

Standard library only: it runs with `python -I`.
"""

import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

START_SECONDS = 180.0
STOP_SECONDS = 10.0
PR_SET_PDEATHSIG = 1


class ServerFailed(Exception):
    pass


def main() -> int:
    folder, programs, user, *settings = sys.argv[1:]
    try:
        serve(Path(folder), Path(programs), user or None, settings)
    except ServerFailed as failure:
        print(failure, flush=True)
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def serve(folder: Path, programs: Path, user: str | None, settings: list[str]) -> None:
    with (folder / "log").open("ab") as log:
        initialise(folder, programs, user, log)
        server = subprocess.Popen(
            [programs / "postgres", "-D", folder / "data", *settings],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            user=user,
            preexec_fn=die_with_parent,
        )
    try:
        wait_until_ready(server, folder)
        print("ready", flush=True)
        wait_for_end_of_input(server)
    finally:
        stop(server)


def initialise(folder: Path, programs: Path, user: str | None, log: IO[bytes]) -> None:
    """Create the data folder. The C locale sorts text by code point on every machine, as SQLite does."""
    who = ("--username=postgres", "--auth=trust")
    made = subprocess.run(
        [programs / "initdb", "--pgdata", folder / "data", *who, "--encoding=UTF8", "--locale=C", "--no-sync"],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        user=user,
        check=False,
    )
    if made.returncode != 0:
        raise ServerFailed(f"initdb failed ({made.returncode}): {tail_of_log(folder)}")


def die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGQUIT)


def wait_until_ready(server: subprocess.Popen[bytes], folder: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not is_ready(folder):
        if server.poll() is not None:
            raise ServerFailed(f"postgres ended at its start ({server.returncode}): {tail_of_log(folder)}")
        if time.monotonic() > deadline:
            raise ServerFailed(f"postgres was not ready after {START_SECONDS:.0f} s: {tail_of_log(folder)}")
        time.sleep(0.01)


def is_ready(folder: Path) -> bool:
    """Whether the eighth line of postmaster.pid, the server's state, is `ready`."""
    try:
        lines = (folder / "data" / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return False
    return len(lines) >= 8 and lines[7].strip() == "ready"


def wait_for_end_of_input(server: subprocess.Popen[bytes]) -> None:
    """Return when the owner is gone or the server has ended by itself."""
    ended = os.pidfd_open(server.pid)
    select.select([sys.stdin.fileno(), ended], [], [])
    os.close(ended)


def stop(server: subprocess.Popen[bytes]) -> None:
    """End the server at once: its data is discarded, so there is nothing to flush."""
    if server.poll() is None:
        server.send_signal(signal.SIGQUIT)
    try:
        server.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def tail_of_log(folder: Path) -> str:
    """The end of the log as one line, since the starter reads one line."""
    return " | ".join((folder / "log").read_text(errors="replace").splitlines()[-8:])


if __name__ == "__main__":
    sys.exit(main())
