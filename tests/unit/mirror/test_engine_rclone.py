"""The rclone that an engine starts for itself receives none of the engine's signals and does not outlive it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.mirror.rclone import Rclone
from holdfast.settings import Settings
from tests.support.service import wait_until

ENGINE = "import subprocess, sys, time; print(subprocess.Popen(sys.argv[1:]).pid, flush=True); time.sleep(60)"


@pytest.fixture
def wrapper(tmp_path: Path) -> str:
    """A wrapper whose rclone is a program that prints its arguments and waits."""
    program = tmp_path / "it's rclone"
    program.write_text(f'#!/bin/sh\nprintf "%s|" "$@" >"{tmp_path}/given"\nexec sleep 60\n')
    program.chmod(0o755)
    return Rclone(Settings(data_dir=tmp_path / "data", rclone=str(program))).rclone_wrapper()


@pytest.fixture
def engine(wrapper: str, tmp_path: Path) -> Iterator[tuple[int, int]]:
    """An engine that has started the wrapper: the process ids of both."""
    started = subprocess.Popen(
        [sys.executable, "-c", ENGINE, wrapper, "rcd", "two words"], stdout=subprocess.PIPE, start_new_session=True
    )
    assert started.stdout is not None
    child = int(started.stdout.readline())
    try:
        wait_until(lambda: (tmp_path / "given").exists() and (tmp_path / "given").read_text(), what="it runs")
        yield started.pid, child
    finally:
        started.kill()
        started.wait()


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_rclone_gets_the_engines_arguments(engine: tuple[int, int], tmp_path: Path) -> None:
    assert (tmp_path / "given").read_text() == "rcd|two words|"
    assert is_alive(engine[1])


def test_rclone_ends_when_its_engine_is_killed(engine: tuple[int, int]) -> None:
    os.kill(engine[0], signal.SIGKILL)

    wait_until(lambda: not is_alive(engine[1]), what="it is gone")


def test_a_signal_to_the_engines_process_group_does_not_reach_rclone(engine: tuple[int, int]) -> None:
    assert os.getpgid(engine[1]) != os.getpgid(engine[0])
