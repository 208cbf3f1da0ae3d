"""A repository that engine 2 itself stores on a real remote, and the rclone of its engine."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.gate import FLAG
from tests.support.processes import processes_naming
from tests.support.rclone import Backend
from tests.support.running import PASSPHRASE, Running
from tests.support.service import Client


@dataclass
class OnRemote:
    running: Running
    backend: Backend
    remote: dict[str, Any]

    @property
    def admin(self) -> Client:
        return self.running.admin

    def address(self, word: str, remote: str | None = None) -> str:
        return f"rclone:{remote or self.remote['name']}:{self.backend.path(word)}"

    def body(self, **more: Any) -> dict[str, Any]:
        word = self.running.new_name("on-remote")
        kinds = {"repository_type": "rclone", "engine_version": 2}
        return {
            "name": word,
            "path": self.address(word),
            **kinds,
            "passphrase": PASSPHRASE,
            "index_mode": "off",
            "custom_flags": [FLAG],
            **more,
        }

    def create(self, **more: Any) -> dict[str, Any]:
        source = self.running.new_source()
        answer = self.admin.post("/api/repositories/", json=self.body(source_paths=[str(source)], **more))
        assert answer.status_code == 201, answer.text
        created: dict[str, Any] = answer.json()
        return created

    def add_remote(self, **options: Any) -> dict[str, Any]:
        body = self.backend.new_remote(self.running.new_name(self.backend.provider))
        answer = self.admin.post("/api/rclone/remotes", json={**body, "options": {**body["options"], **options}})
        assert answer.status_code == 201, answer.text
        added: dict[str, Any] = answer.json()
        return added

    def end(self, job_id: int) -> dict[str, Any]:
        return self.admin.wait_for_end(job_id)

    def back_up(self, repository: dict[str, Any]) -> dict[str, Any]:
        ended = self.end(self.admin.start_backup(repository))
        assert ended["status"] == "completed", (ended, self.admin.log_lines(ended["id"]))
        return ended

    def companions(self) -> list[int]:
        """The rclone processes that the engines of this service have started, whatever their current parent."""
        home = f"HOME={self.running.process.data_dir}/".encode()
        return [pid for pid in processes_naming(" rcd ") if home in _environment_of(pid)]

    def stored_names(self) -> set[str]:
        return {one["name"] for one in self.admin.get("/api/repositories/").json()["repositories"]}

    @contextmanager
    def nothing_changes(self) -> Iterator[None]:
        names, files = self.stored_names(), _files(self.backend.folder)
        yield
        assert (self.stored_names(), _files(self.backend.folder)) == (names, files)


def on_remote(running: Running, backend: Backend) -> OnRemote:
    world = OnRemote(running, backend, {})
    world.remote = world.add_remote()
    return world


def _environment_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def _files(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*")}
