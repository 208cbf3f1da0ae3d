"""A machine whose disk is full."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.engines import ENGINES
from tests.support.running import Running
from tests.support.service import Client
from tests.support.sshd import Sshd
from tests.support.warm_engines import warm_program

pytestmark = pytest.mark.campaign


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", folder], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip("this machine does not let us mount a tmpfs")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.mark.parametrize("far", [{"repository_type": "ssh"}, {"execution_target": "ssh"}])
def test_a_full_disk_on_the_machine_is_reported_and_the_repository_stays_intact(
    running: Running, admin: Client, own_machine: Sshd, small_disk: Path, far: dict[str, Any]
) -> None:
    number = own_machine.connection(admin, running.new_name("small"), engine_path=str(warm_program(ENGINES["1.4"])))
    source = running.new_source()
    repository = running.new_repository(
        path=small_disk / "repository",
        source_paths=[source],
        ssh_connection_id=number,
        name=running.new_name("small"),
        **far,
    )
    assert admin.wait_for_end(admin.start_backup(repository))["status"] == "completed"
    (source / "large").write_bytes(os.urandom(16 << 20))

    ended = admin.wait_for_end(admin.start_backup(repository))

    assert (ended["status"], ended["error_key"]) == ("failed", "engine.disk_full"), ended["error_message"]
    (source / "large").unlink()
    assert admin.wait_for_end(admin.start_backup(repository))["status"] == "completed"


def test_no_space_for_the_shim_is_reported_as_a_full_disk(
    running: Running, admin: Client, own_machine: Sshd, small_disk: Path
) -> None:
    number = own_machine.connection(admin, running.new_name("full"), engine_path=str(warm_program(ENGINES["1.4"])))
    repository = running.new_repository(execution_target="ssh", ssh_connection_id=number)
    cache = own_machine.home / ".cache"
    (small_disk / "filler").write_bytes(bytes(12 << 20))
    cache.rename(own_machine.home / "cache-of-before")
    cache.symlink_to(small_disk)

    ended = admin.wait_for_end(admin.start_backup(repository))

    assert (ended["status"], ended["error_key"]) == ("failed", "engine.disk_full"), ended["error_message"]
