"""The shim and its spool, with real processes: every row of the recovery matrix."""

import contextlib
import fcntl
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from backup_engine import shim
from backup_engine.command import Command, Secret
from backup_engine.process import (
    ENGINE_NICENESS,
    NICENESS_VARIABLE,
    Adopted,
    Spool,
    SpoolState,
    _command_record,
    niceness,
)
from tests.support.service import PATIENCE, wait_until

NO_SECRETS = b"{}\n"


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    spool = Spool(tmp_path / "spool" / "1" / "create")
    yield spool
    end_all_of(spool)


def end_all_of(spool: Spool) -> None:
    """Leave nothing behind, whatever the test did: first the engine's group, then the shim."""
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
    """False for a zombie too: it runs no more."""
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
    """Start a shim over the spool as a starter does, and send it these bytes."""
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


# --- how a run ends ------------------------------------------------------------------------------------------------


def test_a_run_leaves_its_streams_and_how_it_ended(spool: Spool) -> None:
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


def test_an_argument_that_no_program_can_take_does_not_make_a_second_shim(spool: Spool) -> None:
    assert run(spool, Command(argv=("/bin/echo", "a\0b"))) is SpoolState.EXITED
    record = spool.exit_record()
    assert record is not None
    assert record.code == 127
    assert record.exec_error is not None
    assert "null byte" in record.exec_error


@pytest.mark.parametrize(("folder", "is_entered"), [("/", True), ("/usr", False)])
def test_a_user_who_is_not_root_works_in_the_root_folder_and_in_no_other_of_roots(
    folder: str, is_entered: bool
) -> None:
    """Packages are installed, and mirrors written, from there."""
    child = os.fork()
    if child == 0:
        with contextlib.suppress(OSError):
            os.seteuid(65534)  # of root; anybody else is none already
        try:
            shim.enter(os.fsencode(folder))
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert (os.waitstatus_to_exitcode(status) == 0) is is_entered


def test_an_engine_that_is_killed_leaves_the_signal_that_killed_it(spool: Spool) -> None:
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


def test_an_engine_goes_on_when_its_shim_is_killed(spool: Spool, tmp_path: Path) -> None:
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


def test_signals_to_the_shims_whole_group_do_not_keep_it_from_recording(spool: Spool, tmp_path: Path) -> None:
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


# --- what has not started, and never will ---------------------------------------------------------------------------


@pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="the kernel does not group sessions")
def test_an_engine_gives_way_to_other_sessions_as_it_does_to_its_own(
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
def test_how_much_engines_give_way_is_set_by_the_environment(
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


def test_a_shim_in_the_session_of_others_leaves_their_priority_alone() -> None:
    before = content(Path("/proc/self/autogroup"))
    shim.give_way_to_other_sessions(19)
    assert content(Path("/proc/self/autogroup")) == before


def test_a_spool_that_was_never_made_never_started(spool: Spool) -> None:
    assert spool.settle() is SpoolState.NEVER_STARTED
    assert not spool.has_started()


def test_a_shim_that_comes_after_it_was_settled_never_runs(spool: Spool, tmp_path: Path) -> None:
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


def test_a_second_shim_over_the_same_spool_never_runs(spool: Spool, tmp_path: Path) -> None:
    command = shell(f'echo ran >> "{tmp_path}/ran"')
    assert run(spool, command) is SpoolState.EXITED

    assert start_shim(spool).wait(PATIENCE) == shim.NOT_STARTED
    assert content(tmp_path / "ran") == "ran\n"


def test_a_spool_is_launched_over_once_only(spool: Spool) -> None:
    run(spool, shell("exit 0"))
    with pytest.raises(FileExistsError):
        spool.launch(shell("exit 0"))


@pytest.mark.parametrize("sent", [b"", b'{"BORG_PASSPHRASE_FD": {"value": "half of a pas', b"{}"])
def test_a_starter_that_dies_before_it_has_sent_all_secrets_starts_nothing(
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


def test_a_starter_killed_at_any_instant_leaves_a_run_or_none(tmp_path: Path) -> None:
    """Kill a real launch at random instants; what is settled as never started is launched again: one run in the end."""
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


def test_a_late_shim_beside_a_second_launch_makes_one_run_at_any_instant(tmp_path: Path) -> None:
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
    """The instant of the kill is the test's input, not something that is waited for."""
    time.sleep(seconds)


# --- signals reach what they should, and nothing else ----------------------------------------------------------------


def test_a_signal_reaches_the_engines_children_too(spool: Spool) -> None:
    spool.launch(shell("sleep 600 & echo child $!; wait"))
    said(spool, "child")
    grandchild = int(content(spool.out).split()[1])

    assert spool.signal_engine(signal.SIGTERM)

    assert ended(spool) is SpoolState.EXITED
    gone(grandchild)
    assert not spool.signal_engine(signal.SIGTERM)


def test_a_signal_reaches_what_outlives_the_engine(spool: Spool) -> None:
    spool.launch(shell("trap '' TERM; sleep 600 & echo child $!"))
    said(spool, "child")
    grandchild = int(content(spool.out).split()[1])
    wait_until(lambda: spool.exit_record(), what="the engine itself has ended")
    assert spool.settle() is SpoolState.ALIVE

    assert spool.signal_engine(signal.SIGKILL)

    gone(grandchild)
    assert ended(spool) is SpoolState.EXITED


def test_a_process_that_got_the_engines_number_later_is_never_signalled(spool: Spool) -> None:
    bystander = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        spool.launch(shell("echo begun; exec sleep 600"))
        said(spool, "begun")
        engine = engine_pid(spool)
        record = json.dumps({"pid": bystander.pid, "start_time": "1"})
        (spool.folder / "engine.json").write_text(record)

        spool.signal_engine(signal.SIGKILL)

        gone(engine)  # it holds the lock, so it is what was meant
        assert bystander.poll() is None
        ended(spool)
        assert not spool.signal_engine(signal.SIGKILL)
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_run_that_has_not_become_the_engine_yet_is_not_signalled(spool: Spool) -> None:
    write_command(spool, shell("exit 0"))
    lock = os.open(spool.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        assert spool.is_alive()
        assert not spool.signal_engine(signal.SIGKILL)
    finally:
        os.close(lock)


# --- secrets -------------------------------------------------------------------------------------------------------


def test_a_secret_reaches_the_engine_and_nothing_else(spool: Spool, tmp_path: Path) -> None:
    value = "planted-7c1f0f3e-secret"
    # The engine turns what it read around, so that the test sees that it arrived without writing it anywhere.
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
    # The environment is the one place of the second kind: the engine's own, and not its shim's.
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
