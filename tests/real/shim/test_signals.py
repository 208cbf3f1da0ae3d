"""What signals and secrets reach, and what they must not reach."""

import fcntl
import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

from backup_engine.command import Secret
from backup_engine.process import (
    Spool,
    SpoolState,
)
from tests.real.shim.runs import content, ended, engine_pid, gone, said, shell, shim_pid, write_command
from tests.support.service import wait_until


def test_a_signal_also_reaches_the_children_of_the_engine(spool: Spool) -> None:
    spool.launch(shell("sleep 600 & echo child $!; wait"))
    said(spool, "child")
    grandchild = int(content(spool.out).split()[1])

    assert spool.signal_engine(signal.SIGTERM)

    assert ended(spool) is SpoolState.EXITED
    gone(grandchild)
    assert not spool.signal_engine(signal.SIGTERM)


def test_a_signal_reaches_processes_that_outlive_the_engine(spool: Spool) -> None:
    spool.launch(shell("trap '' TERM; sleep 600 & echo child $!"))
    said(spool, "child")
    grandchild = int(content(spool.out).split()[1])
    wait_until(lambda: spool.exit_record(), what="the engine itself has ended")
    assert spool.settle() is SpoolState.ALIVE

    assert spool.signal_engine(signal.SIGKILL)

    gone(grandchild)
    assert ended(spool) is SpoolState.EXITED


def test_a_process_that_later_got_the_engines_pid_is_never_signalled(spool: Spool) -> None:
    bystander = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        spool.launch(shell("echo begun; exec sleep 600"))
        said(spool, "begun")
        engine = engine_pid(spool)
        record = json.dumps({"pid": bystander.pid, "start_time": "1"})
        (spool.folder / "engine.json").write_text(record)

        spool.signal_engine(signal.SIGKILL)

        gone(engine)  # it holds the lock, which identifies it as the engine
        assert bystander.poll() is None
        ended(spool)
        assert not spool.signal_engine(signal.SIGKILL)
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_run_that_has_not_yet_become_the_engine_is_not_signalled(spool: Spool) -> None:
    write_command(spool, shell("exit 0"))
    lock = os.open(spool.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        assert spool.is_alive()
        assert not spool.signal_engine(signal.SIGKILL)
    finally:
        os.close(lock)


def test_a_secret_reaches_the_engine_and_nothing_else(spool: Spool, tmp_path: Path) -> None:
    value = "planted-7c1f0f3e-secret"
    # The engine reverses what it reads, so that the test sees that it arrived without writing it anywhere.
    command = shell(
        'rev <&"$PASSPHRASE_FD"; echo; echo read; exec sleep 600',
        secrets={"PASSPHRASE_FD": Secret(value), "OTHER": Secret("planted-in-the-environment", "environment")},
    )
    spool.launch(command)
    said(spool, "read")

    assert content(spool.out).splitlines()[0] == value[::-1]
    for file in spool.folder.iterdir():
        assert value.encode() not in file.read_bytes(), file.name
        assert b"planted-in-the-environment" not in file.read_bytes(), file.name
    assert not occurrences(value.encode(), everywhere)
    assert not occurrences(b"planted-in-the-environment", command_lines)
    # The only place for a secret in the environment is the engine's own environment, not that of its shim.
    assert engine_pid(spool) in occurrences(b"planted-in-the-environment", everywhere)
    assert shim_pid(spool) not in occurrences(b"planted-in-the-environment", everywhere)


def occurrences(secret: bytes, where: Callable[[int], bytes]) -> set[int]:
    pids = {int(entry.name) for entry in Path("/proc").glob("[0-9]*")} - {os.getpid()}
    return {pid for pid in pids if secret in where(pid)}


def command_lines(pid: int) -> bytes:
    return proc_file(pid, "cmdline")


def everywhere(pid: int) -> bytes:
    return proc_file(pid, "cmdline") + proc_file(pid, "environ")


def proc_file(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""
