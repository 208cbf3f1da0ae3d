"""A command that another machine runs: its output arrives here, whatever happens to the link in between."""

import os
import shutil
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from backup_engine.command import Command, Machine, Secret
from backup_engine.far.request import FarStop, request_file, was_started_remotely
from backup_engine.process import ExitRecord, Spool
from tests.support.processes import processes_naming
from tests.support.service import PATIENCE, wait_until
from tests.support.sshd import Sshd

OLDER_PYTHON = next(
    map(str, Path.home().glob(".pyenv/versions/3.9*/bin/python3.9")), shutil.which("python3.9") or "/no/python3.9"
)
SECRET = "a secret with 'quotes', \"more\", ünd \\ backslashes"


def shell(script: str, machine: Machine, **more: object) -> Command:
    environment = {"PATH": os.environ["PATH"], "PLACE": "~/somewhere"}
    return Command(("/bin/sh", "-c", script, "far-run"), environment, machine=machine, **more)  # type: ignore[arg-type]


def ended(spool: Spool, seconds: float = 120) -> ExitRecord:
    wait_until(lambda: not spool.is_alive() and spool.exit_record(), seconds, what="the run has ended here")
    record = spool.exit_record()
    assert record is not None
    return record


def runs_there(host: Sshd) -> list[Path]:
    return list((host.home / ".cache" / "holdfast-shim" / "runs").glob("*"))


def wait_for(file: Path) -> None:
    wait_until(file.exists, what=f"{file.name} is there")


@pytest.mark.parametrize("python", [OLDER_PYTHON, None, pytest.param(sys.executable, marks=pytest.mark.campaign)])
def test_a_command_runs_on_the_machine_and_its_end_is_recorded_here(
    far_host: Sshd, far: Machine, tmp_path: Path, python: str | None
) -> None:
    if python is not None and not Path(python).exists():
        pytest.skip("this machine has no Python 3.9")
    script = 'echo "out of $PLACE"; echo "$PLACE" "$1" >&2; exit 7'
    command = shell(script, replace(far, python=python))
    spool = Spool(tmp_path / "spool")
    spool.launch(replace(command, argv=(*command.argv, "caf\udce9 $HOME 'x'")))

    assert ended(spool).code == 7
    assert spool.out.read_text() == f"out of {far_host.home}/somewhere\n"
    said = spool.err.read_bytes().splitlines()
    assert said[-1] == os.fsencode(f"{far_host.home}/somewhere caf\udce9 $HOME 'x'")
    assert (b"plain ssh" in said[0]) is (python is None), "without Python there, the log says what that means"
    assert runs_there(far_host) == [], "nothing of the run is left there"


def test_a_machine_that_reads_slowly_receives_the_whole_shim(tmp_path: Path) -> None:
    slow = tmp_path / "slow-ssh"
    slow.write_text(f'#!/bin/sh\nsleep 0.6\nHOME={tmp_path} exec /bin/sh -c "$1"\n')
    slow.chmod(0o700)
    spool = Spool(tmp_path / "spool")
    spool.launch(shell("exit 7", Machine("slow", (str(slow),), sys.executable)))

    assert ended(spool, 60).code == 7


@pytest.mark.parametrize("python", [sys.executable, None])
def test_a_secret_reaches_the_command_and_is_stored_nowhere(
    far_host: Sshd, far: Machine, tmp_path: Path, python: str | None
) -> None:
    script = f'echo "$BORG_PASSPHRASE"; touch {tmp_path}/begun; while [ ! -e {tmp_path}/go ]; do sleep 0.05; done'
    spool = Spool(tmp_path / "spool")
    secrets = {"BORG_PASSPHRASE": Secret(SECRET, "environment")}
    spool.launch(shell(script, replace(far, python=python), secrets=secrets))
    wait_for(tmp_path / "begun")

    assert processes_naming(SECRET) == {}
    places = [far_host.home, request_file(spool.folder), spool.folder / "command.json"]
    files = [file for place in places for file in ([place] if place.is_file() else place.rglob("*"))]
    told = [file for file in files if file.is_file() and SECRET.encode() in file.read_bytes() and file.name != "out"]
    assert told == []
    (tmp_path / "go").touch()
    assert ended(spool).code == 0
    assert spool.out.read_text() == SECRET + "\n"


def test_a_link_that_is_cut_repeatedly_loses_nothing_and_runs_the_command_once(
    far_host: Sshd, far: Machine, tmp_path: Path
) -> None:
    script = f'echo run >>{tmp_path}/runs; for n in 1 2 3; do echo "$n"; echo "e$n" >&2; touch {tmp_path}/at-$n;'
    script += f" while [ ! -e {tmp_path}/go-$n ]; do sleep 0.05; done; done; echo end"
    spool = Spool(tmp_path / "spool")
    spool.launch(shell(script, far))
    for number in (1, 2, 3):
        wait_for(tmp_path / f"at-{number}")
        assert wait_until(far_host.cut_links, what="there is a link to cut") > 0
        (tmp_path / f"go-{number}").touch()

    assert ended(spool).code == 0
    assert spool.out.read_text().split() == ["1", "2", "3", "end"]
    assert spool.err.read_text().split() == ["e1", "e2", "e3"]
    assert (tmp_path / "runs").read_text() == "run\n"


def test_a_run_waits_for_a_machine_that_is_temporarily_unreachable(
    far_host: Sshd, far: Machine, tmp_path: Path
) -> None:
    spool = Spool(tmp_path / "spool")
    spool.launch(shell(f"echo begun; touch {tmp_path}/begun; sleep 1; echo end; exit 3", far))
    wait_for(tmp_path / "begun")
    far_host.cut_links()
    far_host.stop()
    wait_until(lambda: not processes_naming("sleep 1; echo end"), what="the engine has ended there")
    gone = time.time()
    wait_until(lambda: time.time() > gone + 3, what="what watches the engine there has recorded its end")
    back = time.time()
    far_host.start()

    record = ended(spool)
    assert record.code == 3
    assert record.finished_at < back, "the record carries when the engine ended there, not when that was noticed"
    assert spool.out.read_text() == "begun\nend\n"


def test_the_near_side_of_a_run_can_be_killed_and_launched_again(far_host: Sshd, far: Machine, tmp_path: Path) -> None:
    script = f"echo run >>{tmp_path}/runs; echo said; touch {tmp_path}/begun"
    command = shell(f"{script}; while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; exit 5", far)
    spool = Spool(tmp_path / "spool")
    spool.launch(command)
    wait_for(tmp_path / "begun")
    assert spool.signal_engine(signal.SIGKILL)
    assert ended(spool).signal == signal.SIGKILL
    spool.remove()
    spool.launch(command)
    (tmp_path / "go").touch()

    assert ended(spool).code == 5
    assert spool.out.read_text() == "said\n"
    assert (tmp_path / "runs").read_text() == "run\n"


@pytest.mark.parametrize("python", [sys.executable, None])
def test_a_cancel_stops_the_process_group_on_the_machine(
    far_host: Sshd, far: Machine, tmp_path: Path, python: str | None
) -> None:
    spool = Spool(tmp_path / "spool")
    spool.launch(shell(f"touch {tmp_path}/begun; exec sleep 1234.5", replace(far, python=python)))
    wait_for(tmp_path / "begun")
    FarStop(spool.folder).act()

    assert ended(spool).code == 128 + signal.SIGTERM
    assert processes_naming("sleep\x001234.5") == {}


def test_a_command_that_is_cancelled_before_its_machine_is_reached_never_starts(tmp_path: Path) -> None:
    slow = tmp_path / "slow-ssh"
    slow.write_text(
        f"#!/bin/sh\ntouch {tmp_path}/dialled; while [ ! -e {tmp_path}/reachable ]; do sleep 0.05; done\n"
        f'HOME={tmp_path} exec /bin/sh -c "$1"\n'
    )
    slow.chmod(0o700)
    spool = Spool(tmp_path / "spool")
    spool.launch(shell(f"touch {tmp_path}/begun", Machine("slow", (str(slow),), sys.executable)))
    wait_for(tmp_path / "dialled")
    FarStop(spool.folder).act()
    (tmp_path / "reachable").touch()

    assert ended(spool).code == 128 + signal.SIGTERM
    assert not was_started_remotely(spool.folder)
    assert not (tmp_path / "begun").exists()


@pytest.mark.campaign
def test_a_cut_link_ends_a_command_under_plain_ssh(far_host: Sshd, far: Machine, tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    spool.launch(shell(f"touch {tmp_path}/begun; exec sleep 4321.5", replace(far, python=None)))
    wait_for(tmp_path / "begun")
    far_host.cut_links()

    assert ended(spool).code == 255
    wait_until(lambda: not processes_naming("sleep\x004321.5"), what="the command was stopped there")


def test_a_missing_program_ends_with_code_127(far: Machine, tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    spool.launch(Command(("/nowhere/borg",), {"PATH": "/usr/bin"}, machine=far))

    assert ended(spool).code == 127


@pytest.mark.campaign
def test_a_command_killed_by_a_signal_ends_with_128_plus_its_number(far: Machine, tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    spool.launch(shell("kill -KILL $$", far))

    assert ended(spool).code == 128 + signal.SIGKILL


def test_an_unreachable_machine_is_an_immediate_error(far_host: Sshd, far: Machine, tmp_path: Path) -> None:
    far_host.stop()
    spool = Spool(tmp_path / "spool")
    spool.launch(shell("echo never", far))

    assert ended(spool, 10).code == 255
    assert "Connection refused" in spool.err.read_text()


@pytest.mark.campaign
def test_piped_output_is_not_stored_on_the_machine_and_stops_with_its_reader(
    far_host: Sshd, far: Machine, tmp_path: Path
) -> None:
    spool = Spool(tmp_path / "spool")
    child, reading = spool.launch_piped(shell("while :; do echo line; done", far))
    received = b""
    while len(received) < 3_000_000:
        received += os.read(reading, 1 << 16)
    assert set(received.split(b"\n")[:-1]) == {b"line"}
    assert not [file for run in runs_there(far_host) for file in run.glob("out")]
    os.close(reading)

    assert child.wait(PATIENCE)
    wait_until(lambda: not processes_naming("while :; do echo line"), what="the command has stopped there")


def test_piped_output_arrives_complete_with_the_exit_code(far: Machine, tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    _, reading = spool.launch_piped(shell("seq 200000; exit 4", far))
    received = b""
    while block := os.read(reading, 1 << 20):
        received += block
    os.close(reading)

    assert ended(spool).code == 4
    assert received.split() == [str(number).encode() for number in range(1, 200_001)]


def test_the_output_of_the_login_shell_gets_into_no_stream(far_host: Sshd, far: Machine, tmp_path: Path) -> None:
    far_host.greet("Welcome, h\\0\\0 stranger")
    spool = Spool(tmp_path / "spool")
    spool.launch(shell("echo only this", far))

    assert ended(spool).code == 0
    assert spool.out.read_text() == "only this\n"


@pytest.mark.campaign
def test_a_far_side_that_cannot_work_fails_the_run(far_host: Sshd, far: Machine, tmp_path: Path) -> None:
    first = Spool(tmp_path / "first")
    first.launch(shell("true", far))
    assert ended(first).code == 0
    (side,) = (far_host.home / ".cache" / "holdfast-shim").glob("*/remote_run.py")
    works = "    control.silence_seconds = "
    assert works in side.read_text()
    side.write_text(side.read_text().replace(works, f"    raise RuntimeError('broken')\n{works}"))
    spool = Spool(tmp_path / "spool")
    spool.launch(shell("echo never", far))

    assert ended(spool).code == 2, "not the code of a warning"
    assert "broken" in spool.err.read_text()
