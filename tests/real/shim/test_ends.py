"""How a run under the shim ends, with real processes: every row of the recovery matrix."""

import contextlib
import os
import signal
import subprocess
from pathlib import Path

import pytest

from backup_engine import shim
from backup_engine.command import Command
from backup_engine.process import (
    Adopted,
    Spool,
    SpoolState,
)
from tests.real.shim.runs import (
    content,
    ended,
    engine_pid,
    gone,
    is_running,
    run,
    said,
    shell,
    shim_pid,
)
from tests.support.service import PATIENCE


def test_a_run_leaves_its_streams_and_its_exit_record(spool: Spool) -> None:
    assert run(spool, shell("echo result; echo word >&2; exit 7")) is SpoolState.EXITED
    record = spool.exit_record()
    assert record is not None
    assert (record.code, record.signal, record.exec_error) == (7, None, None)
    assert record.started_at <= record.finished_at
    assert (content(spool.out), content(spool.err)) == ("result\n", "word\n")


def test_a_program_that_cannot_be_executed_is_recorded_as_such(spool: Spool) -> None:
    assert run(spool, Command(argv=("/nonexistent/borg", "--version"))) is SpoolState.EXITED
    record = spool.exit_record()
    assert record is not None
    assert record.exec_error is not None
    assert record.exec_error.startswith("2 No such file")


def test_an_argument_that_no_program_can_take_is_recorded_as_an_exec_error(spool: Spool) -> None:
    assert run(spool, Command(argv=("/bin/echo", "a\0b"))) is SpoolState.EXITED
    record = spool.exit_record()
    assert record is not None
    assert record.code == 127
    assert record.exec_error is not None
    assert "null byte" in record.exec_error


@pytest.mark.parametrize(("folder", "is_entered"), [("/", True), ("/usr", False)])
def test_a_non_root_user_may_enter_the_root_folder_but_no_other_folder_of_root(folder: str, is_entered: bool) -> None:
    """Packages are installed and mirrors are written from there."""
    child = os.fork()
    if child == 0:
        with contextlib.suppress(OSError):
            os.seteuid(65534)  # as root; any other user is unprivileged already
        try:
            shim.enter(os.fsencode(folder))
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert (os.waitstatus_to_exitcode(status) == 0) is is_entered


def test_the_exit_record_of_a_killed_engine_contains_the_signal(spool: Spool) -> None:
    spool.launch(shell("echo begun; exec sleep 600"))
    said(spool, "begun")

    os.kill(engine_pid(spool), signal.SIGKILL)

    assert ended(spool) is SpoolState.EXITED
    record = spool.exit_record()
    assert record is not None
    assert (record.code, record.signal) == (None, signal.SIGKILL)


def test_a_run_without_a_living_process_and_without_a_record_is_interrupted(spool: Spool) -> None:
    spool.launch(shell("echo begun; exec sleep 600"))
    said(spool, "begun")

    os.kill(shim_pid(spool), signal.SIGKILL)
    os.kill(engine_pid(spool), signal.SIGKILL)

    assert ended(spool) is SpoolState.INTERRUPTED
    assert spool.exit_record() is None


def test_an_engine_continues_when_its_shim_is_killed(spool: Spool, tmp_path: Path) -> None:
    go_on = tmp_path / "go-on"
    spool.launch(shell(f'echo begun; while [ ! -e "{go_on}" ]; do sleep 0.05; done; echo finished'))
    said(spool, "begun")
    engine, parent = engine_pid(spool), shim_pid(spool)

    os.kill(parent, signal.SIGKILL)
    gone(parent)

    assert spool.settle() is SpoolState.ALIVE
    assert is_running(engine)
    assert not Adopted(spool).wait(0.0)
    go_on.touch()
    assert Adopted(spool).wait(PATIENCE)
    assert content(spool.out) == "begun\nfinished\n"
    assert spool.settle() is SpoolState.INTERRUPTED


def test_signals_to_the_shims_whole_group_do_not_prevent_its_exit_record(spool: Spool, tmp_path: Path) -> None:
    go_on = tmp_path / "go-on"
    spool.launch(shell(f'echo begun; while [ ! -e "{go_on}" ]; do sleep 0.05; done; exit 3'))
    said(spool, "begun")

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.killpg(os.getpgid(shim_pid(spool)), number)
    go_on.touch()

    assert ended(spool) is SpoolState.EXITED
    record = spool.exit_record()
    assert record is not None
    assert record.code == 3


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small file system")
def test_a_full_disk_does_not_hide_how_the_engine_ended(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", disk], check=True)
    try:
        spool = Spool(disk / "create")
        assert run(spool, shell("cat /dev/zero; echo full >&2; exit 5")) is SpoolState.EXITED
        record = spool.exit_record()
        assert record is not None
        assert record.code == 5
        with pytest.raises(OSError, match="No space left"):
            (disk / "more").write_bytes(b"x" * 4096)
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)
