"""Engine runs whose output goes through a pipe, with real processes."""

import errno
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from backup_engine.command import Command
from backup_engine.process import Spool, SpoolState
from tests.support.service import PATIENCE, wait_until


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    spool = Spool(tmp_path / "spool")
    yield spool
    spool.signal_engine(signal.SIGKILL)


def shell(script: str, directory: Path | None = None) -> Command:
    return Command(
        argv=("/bin/sh", "-c", script),
        environment={"PATH": os.environ["PATH"]},
        working_directory=str(directory) if directory else None,
    )


def read_all(descriptor: int) -> bytes:
    content = b""
    while block := os.read(descriptor, 65536):
        content += block
    return content


def test_the_pipe_carries_the_output_and_closes_after_the_exit_record_is_written(spool: Spool) -> None:
    child, descriptor = spool.launch_piped(shell("echo output; echo words >&2; exit 3"))

    assert read_all(descriptor) == b"output\n"
    record = spool.exit_record()
    assert record is not None
    assert record.code == 3
    assert not spool.out.exists()
    assert spool.err.read_text() == "words\n"
    os.close(descriptor)
    assert child.wait(PATIENCE)
    assert spool.settle() is SpoolState.EXITED


def test_a_run_that_cannot_be_started_leaves_no_descriptor_open(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_process(*_arguments: object, **_more: object) -> None:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", no_process)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match="temporarily"):
        spool.launch_piped(shell("true"))

    assert len(os.listdir("/proc/self/fd")) == before


def test_a_run_that_nobody_waits_for_leaves_no_descriptor_open(spool: Spool) -> None:
    before = len(os.listdir("/proc/self/fd"))
    child = spool.launch(shell("true"))
    wait_until(lambda: spool.exit_record() is not None and not spool.is_alive(), what="the run has ended")
    del child

    assert len(os.listdir("/proc/self/fd")) == before


def test_a_silent_engine_is_stopped_when_its_reader_goes_away(spool: Spool) -> None:
    child, descriptor = spool.launch_piped(shell("echo begun; exec sleep 1000"))
    assert os.read(descriptor, 100) == b"begun\n"

    os.close(descriptor)

    assert child.wait(PATIENCE)
    record = spool.exit_record()
    assert record is not None
    assert record.signal == signal.SIGTERM
    assert not spool.is_alive()


def test_all_processes_of_an_engine_are_stopped_when_its_reader_goes_away(spool: Spool, tmp_path: Path) -> None:
    script = f"sleep 1000 & echo $! > {tmp_path}/child; echo begun; wait"
    child, descriptor = spool.launch_piped(shell(script))
    assert os.read(descriptor, 100) == b"begun\n"
    grandchild = int((tmp_path / "child").read_text())

    os.close(descriptor)

    assert child.wait(PATIENCE)
    wait_until(lambda: not Path(f"/proc/{grandchild}").exists(), what="the engine's own child is gone")


def test_a_run_whose_shim_is_killed_has_no_exit_record_at_the_end_of_its_output(spool: Spool) -> None:
    _, descriptor = spool.launch_piped(shell("echo begun; read -r line < /dev/zero; exec sleep 2"))
    assert os.read(descriptor, 100) == b"begun\n"
    shim = int((spool.folder / "started.json").read_text().split('"shim_pid": ')[1].split(",")[0])

    os.kill(shim, signal.SIGKILL)
    spool.signal_engine(signal.SIGKILL)

    assert read_all(descriptor) == b""
    assert spool.exit_record() is None
    os.close(descriptor)
    wait_until(lambda: spool.settle() is SpoolState.INTERRUPTED, what="nothing of the run is alive")


def test_output_larger_than_the_pipe_buffer_arrives_complete(spool: Spool) -> None:
    child, descriptor = spool.launch_piped(shell("head -c 20000000 /dev/zero"))

    assert len(read_all(descriptor)) == 20_000_000
    os.close(descriptor)
    assert child.wait(PATIENCE)


@pytest.mark.parametrize("place", ["link", "folder/link/below"])
def test_an_engine_does_not_enter_a_folder_through_a_link(spool: Spool, tmp_path: Path, place: str) -> None:
    outside = tmp_path / "outside"
    (outside / "below").mkdir(parents=True)
    (tmp_path / "folder").mkdir()
    for link in (tmp_path / "link", tmp_path / "folder" / "link"):
        link.symlink_to(outside)

    assert spool.launch(shell("touch here", tmp_path / place)).wait(PATIENCE)

    record = spool.exit_record()
    assert record is not None
    assert record.exec_error is not None
    assert "cannot enter the folder" in record.exec_error
    assert list((outside / "below").iterdir()) == []


def test_an_engine_enters_a_folder_of_its_own_user(spool: Spool, tmp_path: Path) -> None:
    assert spool.launch(shell("touch here", tmp_path)).wait(PATIENCE)

    assert (tmp_path / "here").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_an_engine_does_not_enter_a_folder_of_another_user(spool: Spool, tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir()
    os.chown(folder, 1234, 1234)

    assert spool.launch(shell("touch here", folder)).wait(PATIENCE)

    assert list(folder.iterdir()) == []
