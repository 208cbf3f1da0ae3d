"""A command on a machine whose network is cut silently: what may outlive its link does, and what must not does not."""

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from backup_engine.command import Command, Machine
from backup_engine.far import run
from backup_engine.process import Spool
from holdfast.execution import ssh
from tests.support import networks
from tests.support.networks import ANSWERS, CABLE, PACKETS, Network, network
from tests.support.processes import processes_naming
from tests.support.service import wait_until
from tests.support.sshd import Sshd, sshd

KEEP_ALIVE_SECONDS = 70.0
"""After a silence of this length ssh has given up on this side."""

pytestmark = pytest.mark.skipif(networks.why_not() is not None, reason=f"no network to cut: {networks.why_not()}")


@pytest.fixture
def net() -> Iterator[Network]:
    with network() as net:
        yield net
        net.heal()


@pytest.fixture
def far_host(net: Network, tmp_path: Path) -> Iterator[Sshd]:
    with sshd(tmp_path / "machine", address=net.address, prefix=net.inside()) as machine:
        yield machine


def counting(folder: Path, machine: Machine, *, seconds: int) -> Command:
    """A command that prints a number every tenth of a second on both streams, and records that it was run."""
    script = (
        f'echo run >>{folder}/runs; n=0; while [ "$n" -lt {seconds * 10} ]; do n=$((n + 1)); echo "$n"; echo "$n" >&2'
    )
    return Command(
        ("/bin/sh", "-c", f"{script}; sleep 0.1; done", "counting", str(folder)),
        {"PATH": os.environ["PATH"]},
        machine=machine,
    )


def is_at_work(folder: Path) -> bool:
    return bool(processes_naming(f"counting {folder}"))


def wait_for_run(folder: Path) -> None:
    wait_until((folder / "runs").exists, what="the command runs there")


def followers_there(host: Sshd) -> dict[int, str]:
    return processes_naming(f"{host.home}/.cache/holdfast-shim/{run.version()}/remote_run.py")


@pytest.mark.parametrize(
    ("way", "seconds"),
    [
        (PACKETS, 4.0),
        *(pytest.param(way, KEEP_ALIVE_SECONDS + 10, marks=pytest.mark.campaign) for way in (PACKETS, CABLE, ANSWERS)),
    ],
)
def test_a_command_outlives_a_silent_link_and_its_output_is_complete(
    net: Network, far_host: Sshd, far: Machine, tmp_path: Path, way: str, seconds: float
) -> None:
    spool = Spool(tmp_path / "spool")
    length = round(seconds) + 2
    spool.launch(counting(tmp_path, replace(far, patience_seconds=300), seconds=length))
    wait_for_run(tmp_path)
    net.cut(way)
    time.sleep(seconds)
    net.heal()

    wait_until(lambda: not spool.is_alive() and spool.exit_record(), what="the run has ended here")
    record = spool.exit_record()
    assert record is not None
    assert record.code == 0, spool.err.read_text()
    numbers = [str(number) for number in range(1, length * 10 + 1)]
    assert (spool.out.read_text().split(), spool.err.read_text().split()) == (numbers, numbers)
    assert (tmp_path / "runs").read_text() == "run\n"
    wait_until(lambda: not followers_there(far_host), what="nobody follows it there any more")


@pytest.mark.campaign
@pytest.mark.parametrize("python", [sys.executable, None], ids=["piped", "plain"])
def test_a_command_that_must_not_outlive_its_link_is_stopped_before_the_cut_is_reported(
    net: Network, far_host: Sshd, far: Machine, tmp_path: Path, python: str | None
) -> None:
    spool = Spool(tmp_path / "spool")
    command = counting(tmp_path, replace(far, python=python), seconds=600)
    child, reading = spool.launch_piped(command)
    wait_for_run(tmp_path)
    net.cut()
    assert child.wait(KEEP_ALIVE_SECONDS + 20)

    assert not is_at_work(tmp_path)
    record = spool.exit_record()
    assert record is not None
    assert record.code == ssh.FAILED
    os.close(reading)


@pytest.mark.campaign
def test_a_slow_reader_is_not_mistaken_for_a_silent_link(far_host: Sshd, far: Machine, tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    script = f"echo run >{tmp_path}/runs; seq 2000000"
    command = Command(("/bin/sh", "-c", script), {"PATH": os.environ["PATH"]}, machine=far)
    _, reading = spool.launch_piped(command)
    wait_for_run(tmp_path)
    time.sleep(run.KEEPALIVE_SECONDS * run.SILENCES + 10)
    received = b""
    while block := os.read(reading, 1 << 20):
        received += block
    os.close(reading)

    assert received.endswith(b"\n2000000\n")
