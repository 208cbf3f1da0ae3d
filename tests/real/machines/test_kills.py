"""Backups on an ssh machine while any part of them is killed at random instants: the record matches reality.

`HOLDFAST_SSH_KILLS` sets how many backups are played (the suite: 2).
"""

import contextlib
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.engines import ENGINES
from tests.support.processes import processes_naming
from tests.support.running import PASSPHRASE, Running, Services
from tests.support.sshd import Sshd, sshd
from tests.support.warm_engines import warm_program

KILLS = int(os.environ.get("HOLDFAST_SSH_KILLS", "2"))
LONGEST_SECONDS = 3.0
VICTIMS = ("link", "near side", "local shim", "engine there", "shim there", "service", "machine is away")
ENGINE = ENGINES["1.4"]


@dataclass
class Site:
    running: Running
    machine: Sshd
    repository: dict[str, Any]

    def kill(self, operation_id: int, victim: str) -> None:
        here, there = f"{self.running.process.data_dir}/spool/{operation_id}/", f"{self.machine.home}/.cache"
        match victim:
            case "link":
                self.machine.cut_links()
            case "near side":
                self._kill(here, "far/run.py")
            case "local shim":
                self._kill(here, "/shim.py")
            case "engine there":
                self._kill(f"{self.repository['path']}::", str(ENGINE))
            case "shim there":
                self._kill(there, "/shim.py")
            case "service":
                self.running.process.kill()
                self.running.process.restart()
            case "machine is away":
                self.machine.cut_links()
                self.machine.stop()
                time.sleep(1.0)
                self.machine.start()

    def _kill(self, *words: str) -> None:
        for process in psutil.process_iter(["cmdline"]):
            line = " ".join(process.info["cmdline"] or ())
            if all(word in line for word in words):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.send_signal(signal.SIGKILL)

    def archives(self) -> list[str]:
        """The comment of each archive, as the engine itself reports them."""
        listed = subprocess.run(
            [warm_program(ENGINE), "--lock-wait", "20", "list", "--format={comment}{NL}", self.repository["path"]],
            env={
                "PATH": os.environ["PATH"],
                "BORG_PASSPHRASE": PASSPHRASE,
                "BORG_BASE_DIR": str(self.machine.folder / "asking"),
                "BORG_HOST_ID": "the machine of the tests",
                "BORG_SELFTEST": "disabled",
                "BORG_RELOCATED_REPO_ACCESS_IS_OK": "yes",
            },
            capture_output=True,
            text=True,
            check=True,
        )
        return listed.stdout.splitlines()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    services = Services(tmp_path_factory.mktemp("killed"))
    running = services.get()
    with sshd(tmp_path_factory.mktemp("machine")) as machine:
        number = machine.connection(running.admin, "machine", engine_path=str(ENGINE))
        source = running.new_source()
        (source / "large").write_bytes(os.urandom(4 << 20))
        repository = running.new_repository(
            source_paths=[source],
            execution_target="ssh",
            ssh_connection_id=number,
            encryption="repokey-blake2",
            compression="lzma,6",
        )
        yield Site(running, machine, repository)
        services.stop()


@pytest.mark.parametrize("seed", range(KILLS))
def test_a_backup_whose_parts_are_killed_still_completes_and_is_recorded_correctly(site: Site, seed: int) -> None:
    chance = random.Random(seed)
    source = Path(site.repository["source_paths"][0])
    (source / "large").write_bytes(chance.randbytes(4 << 20))
    before = len(site.archives())
    operation_id = site.running.admin.start_backup(site.repository)
    victims = chance.sample(VICTIMS, 2)
    for victim in victims:
        time.sleep(chance.uniform(0, LONGEST_SECONDS))
        site.kill(operation_id, victim)

    ended = site.running.admin.wait_for_end(operation_id)

    assert ended["status"] == "completed", (victims, ended["error_key"], ended["error_message"])
    assert processes_naming(f"{site.repository['path']}::") == {}, victims
    made = site.archives()
    assert (len(made), len(set(made))) == (before + 1, before + 1), (victims, made)
    lines = site.running.admin.log_lines(operation_id)
    assert len([line for line in lines if line.startswith("$ ")]) == ended["attempt"], (victims, lines)
    follow_up = site.running.admin.wait_for_end(site.running.admin.start_backup(site.repository))
    assert follow_up["status"] == "completed", (victims, "a following job clears what was left")
