"""The first hour on bare machines: what `make fresh` does, as a test."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.service import free_port

ROOT = Path(__file__).resolve().parents[2]
LONGEST_SECONDS = 3600


@pytest.mark.campaign
@pytest.mark.timeout(LONGEST_SECONDS)
@pytest.mark.skipif(os.getuid() != 0, reason="a bare machine is made as root")
@pytest.mark.skipif(shutil.which("debootstrap") is None, reason="debootstrap is not installed")
@pytest.mark.parametrize("user", ["root", "somebody"])
@pytest.mark.parametrize("suite", ["bookworm", "trixie"])
def test_the_first_backup_works_on_a_bare_machine(suite: str, user: str) -> None:
    machine = [ROOT / "tools" / "fresh-machine.sh", "-s", suite, "-u", user]

    played = subprocess.run(
        [*machine, "tools/try_tour.sh", str(free_port())],
        capture_output=True,
        text=True,
        timeout=LONGEST_SECONDS,
        check=False,
    )

    assert played.returncode == 0, f"{played.stdout[-6000:]}\n{played.stderr[-3000:]}"
    assert "the tour is played" in played.stdout
