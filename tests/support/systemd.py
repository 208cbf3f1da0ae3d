"""A real systemd for tests: the first process of its own namespaces, with its own /run and cgroups.

Outside, `systemctl` is a small program that enters these namespaces and calls the real one. Needs root.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.service import PATIENCE

PROGRAM = Path("/usr/lib/systemd/systemd")
TARGET = """[Unit]
Description=Tests
DefaultDependencies=no
"""
SERVICE = """[Unit]
DefaultDependencies=no
[Service]
Type=simple
ExecStart=/bin/sh -c 'while [ -e {alive} ]; do sleep 0.2; done; exit 1'
ExecStartPre=/bin/sh -c 'test -e {alive}'
ExecStartPre=/bin/sh -c 'echo started >> {journal}'
ExecStopPost=/bin/sh -c 'echo stopped >> {journal}'
TimeoutStopSec=300
"""
BEGIN = """set -e
mount -t tmpfs tmpfs /run
mkdir -p /run/lock /run/systemd/system
umount -R /sys/fs/cgroup 2>/dev/null || true
mount -t tmpfs tmpfs /sys/fs/cgroup
mkdir -p /sys/fs/cgroup/systemd /sys/fs/cgroup/unified
mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified 2>/dev/null || true
mount -t cgroup -o none,name=systemd cgroup /sys/fs/cgroup/systemd 2>/dev/null || true
cp {units}/* /run/systemd/system/
export container=holdfast
exec {program} --system --unit=tests.target --log-target=null --show-status=no
"""


def needs_systemd() -> None:
    """Skip the test if systemd cannot be started."""
    if os.geteuid() != 0 or not PROGRAM.exists() or not shutil.which("nsenter"):
        pytest.skip("needs root and systemd")


class Systemd:
    """A running systemd, controlled through `folder/bin/systemctl`."""

    def __init__(self, folder: Path, first_process: int) -> None:
        self.folder = folder
        self.first_process = first_process
        self.programs = folder / "bin"

    def systemctl(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [str(self.programs / "systemctl"), *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)

    def state(self, unit: str) -> str:
        return self.systemctl("is-active", unit).stdout.strip()

    def journal(self, unit: str) -> list[str]:
        """`started` and `stopped`, in the order of events."""
        file = self.folder / f"{unit}.journal"
        return file.read_text().split() if file.exists() else []

    def break_unit(self, unit: str) -> None:
        """Make the unit unable to start."""
        (self.folder / f"{unit}.alive").unlink()

    def mend_unit(self, unit: str) -> None:
        (self.folder / f"{unit}.alive").touch()


@contextmanager
def systemd(folder: Path, *units: str) -> Iterator[Systemd]:
    """Start systemd with these services running."""
    needs_systemd()
    written = folder / "units"
    written.mkdir(parents=True)
    (written / "tests.target").write_text(TARGET)
    for unit in units:
        (folder / f"{unit}.alive").touch()
        text = SERVICE.format(alive=folder / f"{unit}.alive", journal=folder / f"{unit}.journal")
        (written / unit).write_text(text)
    command = ["unshare", "-fpmCu", "--mount-proc", "--kill-child=KILL", "sh", "-c"]
    process = subprocess.Popen(
        [*command, BEGIN.format(units=written, program=PROGRAM)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        first = _child_of(process)
        (folder / "bin").mkdir()
        systemctl = folder / "bin" / "systemctl"
        systemctl.write_text(f'#!/bin/sh\nexec nsenter -t {first} -m -p -- /usr/bin/systemctl "$@"\n')
        systemctl.chmod(0o755)
        started = Systemd(folder, first)
        for unit in units:
            _until_started(started, unit)
        yield started
    finally:
        _end(process)


def _child_of(process: "subprocess.Popen[bytes]") -> int:
    """The child of `unshare` that is the first process of its namespace, once it is systemd."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        found = children.read_text().split()
        if found and Path(f"/proc/{found[0]}/comm").read_text().strip() == "systemd":
            return int(found[0])
        time.sleep(0.05)
    pytest.skip("systemd cannot be started in namespaces here")


def _until_started(started: Systemd, unit: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while started.systemctl("start", unit).returncode != 0:
        assert time.monotonic() < deadline, f"{unit} does not start"
        time.sleep(0.1)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Kill `unshare`, and with it the first process of the namespace and everything in it."""
    process.send_signal(signal.SIGKILL)
    process.wait()
