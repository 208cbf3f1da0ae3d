import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from backup_engine.command import Machine
from holdfast.execution.ssh import SshLink
from tests.support.sshd import Sshd, sshd


@pytest.fixture
def far_host(tmp_path: Path) -> Iterator[Sshd]:
    with sshd(tmp_path / "machine") as machine:
        yield machine


@pytest.fixture
def link(far_host: Sshd, tmp_path: Path) -> SshLink:
    """A link with its own key, as the service would create it."""
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    far_host.authorize(key.with_suffix(".pub").read_text())
    known = tmp_path / "known_hosts"
    known.write_text("holdfast-1 " + (far_host.folder / "host_key.pub").read_text())
    return SshLink(far_host.username, far_host.address, far_host.port, "holdfast-1", key, known)


@pytest.fixture
def far(link: SshLink) -> Machine:
    return Machine(link.destination, link.command, sys.executable, patience_seconds=60)
