"""A repository mirrored to a real remote, and the processes of its operations, which tests kill."""

import json
import os
import random
import shutil
import signal
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.engines import ENGINE_2
from tests.support.outside import Outside
from tests.support.processes import processes_naming
from tests.support.rclone import Backend, are_equal
from tests.support.running import PASSPHRASE, Running
from tests.support.service import Client, wait_until


@dataclass
class World:
    running: Running
    backend: Backend
    repository: dict[str, Any]
    word: str
    """The name of the mirror's folder on the remote."""

    @property
    def admin(self) -> Client:
        return self.running.admin

    @property
    def path(self) -> Path:
        return Path(self.repository["path"])

    @property
    def mirror(self) -> Path:
        return self.backend.seen(self.word)

    @property
    def url(self) -> str:
        return f"/api/repositories/{self.repository['id']}/mirror"

    def back_up(self, new_bytes: int) -> None:
        """Let the repository grow, as the next backup would."""
        source = Path(self.repository["source_paths"][0])
        (source / f"file-{len(list(source.iterdir()))}").write_bytes(random.randbytes(new_bytes))
        assert self.admin.wait_for_end(self.admin.start_backup(self.repository))["status"] == "completed"

    def limit(self, kib: int | None) -> None:
        settings = self.admin.get(self.url).json()
        kept = ("remote_id", "path", "mode", "verify")
        body = {**{name: settings[name] for name in kept}, "bandwidth_limit_kib": kib}
        assert self.admin.put(self.url, json=body).status_code == 200

    def start_sync(self) -> int:
        job_id: int = self.admin.post(f"{self.url}/sync").json()["job_id"]
        return job_id

    def start_hydrate(self, destination: Path) -> int:
        body = {"destination": str(destination), "confirm": True}
        answer = self.admin.post(f"{self.url}/hydrate", json=body)
        assert answer.status_code == 200, answer.text
        job_id: int = answer.json()["job_id"]
        return job_id

    def end(self, job_id: int) -> dict[str, Any]:
        return self.admin.wait_for_end(job_id)

    # --- processes --------------------------------------------------------------------------------------------------

    def spool(self, job_id: int) -> str:
        return f"{self.running.process.data_dir}/spool/{job_id}/"

    def shims(self, job_id: int) -> list[int]:
        return list(processes_naming(self.spool(job_id)))

    def copies(self) -> list[int]:
        """The rclone processes that work on this repository."""
        found = processes_naming(f"mirror:{self.backend.path(self.word)}")
        return [pid for pid, arguments in found.items() if "rclone" in arguments.split(" ")[0]]

    def wait_until_copying(self, job_id: int, percent: float = 5.0) -> None:
        """Wait until data is being copied, which the bandwidth limit prolongs."""

        def is_copying() -> bool:
            told = self.admin.operation(job_id)
            assert told["status"] in ("pending", "running"), told
            return (told["progress_percent"] or 0.0) > percent and bool(self.copies())

        wait_until(is_copying, pause=0.02, what="data is on its way")

    def strike(self, target: str, job_id: int) -> None:
        """Kill one kind of process, ignoring those that are already gone."""
        if target == "service":
            self.running.process.kill()
            self.running.process.restart()
            return
        pids = {"rclone": self.copies, "shim": lambda: self.shims(job_id)}[target]()
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue

    def archives(self, path: Path) -> set[str]:
        """The archives of a copy of a repository, each of which can be listed completely."""
        copy = self.running.new_path("copy")
        shutil.copytree(path, copy)
        if self.repository["engine_version"] == 2:
            return self._archives_of_engine_2(copy)
        outside = self.running.outside
        found = outside.archives(copy, PASSPHRASE)
        for name in found:
            assert outside.files(copy, name, PASSPHRASE)
        return set(found)

    def _archives_of_engine_2(self, path: Path) -> set[str]:
        outside = self.outside_2()
        told = outside.run("-r", str(path), "repo-list", "--json", "--format={id}", passphrase=PASSPHRASE)
        found = {archive["id"] for archive in json.loads(told)["archives"]}
        for archive in found:
            assert outside.run("-r", str(path), "list", f"aid:{archive}", passphrase=PASSPHRASE)
        return found

    def outside_2(self) -> Outside:
        """An engine 2 that has never seen the repository before."""
        assert ENGINE_2 is not None
        return Outside(ENGINE_2, self.running.new_folder("outside"))

    def restored(self, path: Path) -> dict[str, bytes]:
        """The files of the newest archive of a repository, extracted by an engine that has never seen it before."""
        folder = self.running.new_folder("restored")
        if self.repository["engine_version"] == 2:
            outside = self.outside_2()
            told = outside.run("-r", str(path), "repo-list", "--json", "--format={id}{time}", passphrase=PASSPHRASE)
            newest = max(json.loads(told)["archives"], key=lambda archive: str(archive["time"]))["id"]
            exporting = ("-r", str(path), "export-tar", f"aid:{newest}")
        else:
            outside = self.running.outside
            exporting = ("export-tar", f"{path}::{list(outside.archives(path, PASSPHRASE))[-1]}")
        outside.run(*exporting, str(folder / "all.tar"), passphrase=PASSPHRASE)
        with tarfile.open(folder / "all.tar") as archive:
            members = [member for member in archive.getmembers() if member.isfile()]
            return {Path(member.name).name: archive.extractfile(member).read() for member in members}  # type: ignore[union-attr]

    def source_files(self) -> dict[str, bytes]:
        return {file.name: file.read_bytes() for file in Path(self.repository["source_paths"][0]).iterdir()}

    def is_equal(self) -> bool:
        mirror = self.mirror
        return are_equal(self.path, mirror) and not (mirror / "cache" / "chunkindex-invalid").exists()


ENCRYPTION = {1: "repokey-blake2", 2: "aes256-ocb"}


def a_world(running: Running, backend: Backend, engine: int = 1, **mirror: Any) -> World:
    """A repository with an archive whose initial sync has completed."""
    repository = running.new_repository(engine_version=engine, encryption=ENCRYPTION[engine], passphrase=PASSPHRASE)
    admin = running.admin
    assert admin.wait_for_end(admin.start_backup(repository))["status"] == "completed"
    remote = admin.post("/api/rclone/remotes", json=backend.new_remote(running.new_name(backend.provider)))
    assert remote.status_code == 201, remote.text
    word = running.new_name("mirror")
    body = {"remote_id": remote.json()["id"], "path": backend.path(word), "mode": "manual", **mirror}
    made = admin.put(f"/api/repositories/{repository['id']}/mirror", json=body)
    assert made.status_code == 200, made.text
    world = World(running, backend, repository, word)
    assert world.end(made.json()["sync_operation_id"])["status"] == "completed"
    return world
