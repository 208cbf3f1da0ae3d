"""Runs that have not started, and runs that never will."""

import fcntl
import itertools
import os
import random
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from backup_engine import shim
from backup_engine.process import (
    ENGINE_NICENESS,
    NICENESS_VARIABLE,
    Spool,
    SpoolState,
    niceness,
)
from tests.real.shim.runs import content, ended, run, shell, start_shim, write_command
from tests.support.service import PATIENCE, wait_until


@pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="the kernel does not group sessions")
def test_an_engine_gives_way_to_other_sessions_as_it_does_within_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(NICENESS_VARIABLE)
    tries = itertools.count()

    def its_session_is_nice() -> bool:
        spool = Spool(tmp_path / f"try-{next(tries)}")
        run(spool, shell("cat /proc/self/autogroup"))
        return content(spool.out).endswith(f"nice {ENGINE_NICENESS}\n")

    wait_until(
        its_session_is_nice, what="the kernel, which takes such a wish only now and then, lets an engine give way"
    )


@pytest.mark.parametrize(
    ("given", "expected"), [("", 10), ("0", 0), ("5", 5), ("99", 19), ("-3", 10), ("nonsense", 10)]
)
def test_the_niceness_of_engines_is_set_by_the_environment(
    given: str, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(NICENESS_VARIABLE, given)
    assert niceness() == expected


@pytest.mark.parametrize(("gives_way", "expected"), [(False, "5"), (True, "14")])
def test_an_engine_that_gives_way_to_other_engines_is_nicer_than_they_are(
    tmp_path: Path, gives_way: bool, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(NICENESS_VARIABLE, "5")
    usual = os.nice(0)
    spool = Spool(tmp_path / "run")
    run(spool, replace(shell("nice"), gives_way=gives_way))
    assert int(content(spool.out)) == min(19, usual + int(expected))


def test_a_shim_in_a_shared_session_does_not_change_its_priority() -> None:
    before = content(Path("/proc/self/autogroup"))
    shim.give_way_to_other_sessions(19)
    assert content(Path("/proc/self/autogroup")) == before


def test_a_spool_that_was_never_created_never_started(spool: Spool) -> None:
    assert spool.settle() is SpoolState.NEVER_STARTED
    assert not spool.has_started()


def test_a_shim_that_starts_after_its_spool_was_settled_never_runs(spool: Spool, tmp_path: Path) -> None:
    write_command(spool, shell(f'echo ran >> "{tmp_path}/ran"'))
    assert spool.settle() is SpoolState.NEVER_STARTED

    late = start_shim(spool)

    assert late.wait(PATIENCE) == shim.NOT_STARTED
    assert spool.settle() is SpoolState.NEVER_STARTED
    assert not (tmp_path / "ran").exists()


def test_a_shim_that_waits_for_the_lock_while_its_spool_is_removed_never_runs(spool: Spool, tmp_path: Path) -> None:
    write_command(spool, shell(f'echo ran >> "{tmp_path}/ran"'))
    lock = os.open(spool.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    late = start_shim(spool)
    wait_until(lambda: waits_for_a_lock(late.pid), pause=0.01, what="the shim waits for the lock")

    spool.remove()
    os.close(lock)

    assert late.wait(PATIENCE) != 0
    assert not (tmp_path / "ran").exists()


def waits_for_a_lock(pid: int) -> bool:
    return any(f" {pid} " in line and "->" in line for line in Path("/proc/locks").read_text().splitlines())


def test_a_second_shim_on_the_same_spool_never_runs(spool: Spool, tmp_path: Path) -> None:
    command = shell(f'echo ran >> "{tmp_path}/ran"')
    assert run(spool, command) is SpoolState.EXITED

    assert start_shim(spool).wait(PATIENCE) == shim.NOT_STARTED
    assert content(tmp_path / "ran") == "ran\n"


def test_a_spool_can_be_launched_only_once(spool: Spool) -> None:
    run(spool, shell("exit 0"))
    with pytest.raises(FileExistsError):
        spool.launch(shell("exit 0"))


@pytest.mark.parametrize("sent", [b"", b'{"BORG_PASSPHRASE_FD": {"value": "half of a pas', b"{}"])
def test_a_starter_that_dies_before_sending_all_secrets_starts_nothing(
    spool: Spool, tmp_path: Path, sent: bytes
) -> None:
    write_command(spool, shell(f'echo ran >> "{tmp_path}/ran"'))
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, str(spool.folder), shim.__file__, sent.decode()], stdout=subprocess.PIPE
    )
    assert starter.stdout is not None
    assert starter.stdout.readline() == b"sent\n"
    wait_until(lambda: spool.is_alive(), pause=0.01, what="the shim waits for its secrets")
    assert spool.settle() is SpoolState.ALIVE

    starter.kill()
    starter.wait()

    assert ended(spool) is SpoolState.NEVER_STARTED
    assert not (tmp_path / "ran").exists()


STARTER = """
import os, subprocess, sys, time
folder, shim, sent = sys.argv[1:]
reading, writing = os.pipe()
subprocess.Popen([sys.executable, "-I", "-S", shim, folder, str(reading)], pass_fds=(reading,), start_new_session=True,
                 stdout=subprocess.DEVNULL)
os.close(reading)
os.write(writing, sent.encode())
print("sent", flush=True)
time.sleep(600)
"""


def test_a_starter_killed_at_any_instant_leaves_one_run_or_none(tmp_path: Path) -> None:
    """Kill a real launch at random instants; launch a spool settled as never started again: at most one run follows."""
    chance = random.Random(20)
    for number in range(12):
        spool, ran = Spool(tmp_path / str(number)), tmp_path / f"ran-{number}"
        starter = subprocess.Popen([sys.executable, "-c", LAUNCHER, str(spool.folder), str(ran)])
        pause_for(chance.uniform(0.04, 0.25))
        starter.kill()
        starter.wait()
        first = spool.settle()
        if first is SpoolState.NEVER_STARTED:
            spool.remove()
            assert spool.launch(shell(f'echo ran >> "{ran}"')).wait(PATIENCE)
        assert ended(spool) in (SpoolState.EXITED, SpoolState.NEVER_STARTED), f"{number}: {first}"
        assert content(ran) == ("ran\n" if spool.exit_record() else ""), f"{number}: {first}"


def test_a_late_shim_and_a_second_launch_lead_to_a_single_run_at_any_instant(tmp_path: Path) -> None:
    chance = random.Random(21)
    for number in range(15):
        spool, ran = Spool(tmp_path / str(number)), tmp_path / f"ran-{number}"
        command = shell(f'echo ran >> "{ran}"')
        write_command(spool, command)
        late = start_shim(spool)
        pause_for(chance.uniform(0.0, 0.04))
        if spool.settle() is SpoolState.NEVER_STARTED:
            spool.remove()
            assert spool.launch(command).wait(PATIENCE)
        late.wait(PATIENCE)
        assert ended(spool) is SpoolState.EXITED, number
        assert content(ran) == "ran\n", number


LAUNCHER = """
import os, sys
from pathlib import Path
from backup_engine.command import Command
from backup_engine.process import Spool
folder, ran = sys.argv[1:]
environment = {"PATH": os.environ["PATH"]}
Spool(Path(folder)).launch(Command(("/bin/sh", "-c", f'echo ran >> "{ran}"'), environment)).wait(60)
"""


def pause_for(seconds: float) -> None:
    """The instant of the kill is an input of the test, not something to wait for."""
    time.sleep(seconds)
