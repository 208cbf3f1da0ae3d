"""An engine run by someone else next to the service, from a different host as far as the engine can tell."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.warm_engines import warm_program

SECONDS_PER_RUN = 120


@dataclass(frozen=True)
class Outside:
    """An engine with its own cache and records of repositories, so that it shares no knowledge with the service."""

    program: Path
    base: Path

    def init(self, path: Path, passphrase: str = "", encryption: str = "repokey-blake2") -> None:
        self.run("init", "--encryption", encryption, str(path), passphrase=passphrase)

    def create(self, path: Path, archive: str, *sources: Path, passphrase: str = "") -> None:
        self.run("create", f"{path}::{archive}", *map(str, sources), passphrase=passphrase)

    def archives(self, path: Path | str, passphrase: str = "") -> dict[str, str]:
        """The archives of a repository, with their comments."""
        listing = self.run("list", "--json", "--format", "{archive}{comment}", str(path), passphrase=passphrase)
        return {archive["archive"]: archive["comment"] for archive in json.loads(listing)["archives"]}

    def files(self, path: Path | str, archive: str, passphrase: str = "") -> list[str]:
        return self.run("list", "--short", f"{path}::{archive}", passphrase=passphrase).splitlines()

    def export_key(self, path: Path, passphrase: str) -> str:
        return self.run("key", "export", str(path), passphrase=passphrase)

    def change_passphrase(self, path: Path | str, old: str, new: str) -> None:
        self.run("key", "change-passphrase", str(path), passphrase=old, BORG_NEW_PASSPHRASE=new)

    @contextmanager
    def holding_lock(self, path: Path | str) -> Iterator[None]:
        """Keep the repository locked, as a backup from another machine would."""
        holder = self._start_holder(path)
        try:
            yield
        finally:
            holder.communicate(timeout=SECONDS_PER_RUN)

    def leave_lock(self, path: Path | str) -> None:
        """Die while the lock is held, so that a lock remains of which only a person can know that it is stale."""
        holder = self._start_holder(path)
        os.killpg(holder.pid, 9)
        holder.communicate(timeout=SECONDS_PER_RUN)

    def run(self, *arguments: str, passphrase: str = "", **variables: str) -> str:
        ended = subprocess.run(
            [warm_program(self.program), *arguments],
            env={**self._environment(passphrase), **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS_PER_RUN,
            check=False,
        )
        assert ended.returncode in (0, 1), ended.stderr
        return ended.stdout

    def _start_holder(self, path: Path | str) -> "subprocess.Popen[str]":
        holder = subprocess.Popen(
            [self.program, "with-lock", str(path), "sh", "-c", "echo held; cat"],
            env=self._environment(""),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        return holder

    def _environment(self, passphrase: str) -> dict[str, str]:
        return {
            "PATH": os.defpath,
            "HOME": str(self.base),
            "LANG": "C.UTF-8",
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "BORG_BASE_DIR": str(self.base),
            "BORG_HOST_ID": "another-machine@1",
            "BORG_PASSPHRASE": passphrase,
            "BORG_SELFTEST": "disabled",
            "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes",
            "BORG_RELOCATED_REPO_ACCESS_IS_OK": "yes",
        }
