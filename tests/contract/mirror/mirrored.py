"""A repository with a mirror on the same machine."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.running import Running
from tests.support.service import Client, wait_until


@dataclass(frozen=True)
class Mirrored:
    running: Running
    repository: dict[str, Any]
    remote_id: int
    folder: Path

    @property
    def admin(self) -> Client:
        return self.running.admin

    @property
    def url(self) -> str:
        return f"/api/repositories/{self.repository['id']}/mirror"

    @contextmanager
    def following(self) -> Iterator[None]:
        """While this lasts, a sync follows each backup."""
        body = {"remote_id": self.remote_id, "path": str(self.folder)}
        assert self.admin.put(self.url, json={**body, "mode": "after_backup"}).status_code == 200
        yield
        assert self.admin.put(self.url, json={**body, "mode": "manual"}).status_code == 200

    @contextmanager
    def spoiled(self) -> Iterator[None]:
        """The repository may be damaged while this lasts; afterwards it is restored."""
        path = Path(self.repository["path"])
        kept = self.running.new_path("kept")
        shutil.copytree(path, kept)  # times are kept too
        yield
        shutil.rmtree(path, ignore_errors=True)
        kept.rename(path)

    def sync(self, **body: Any) -> dict[str, Any]:
        """Sync by hand; return the ended operation."""
        answer = self.admin.post(f"{self.url}/sync", json=body)
        assert answer.status_code == 200, answer.text
        return self.admin.wait_for_end(answer.json()["job_id"])

    def hydrate(self, destination: Path) -> dict[str, Any]:
        answer = self.admin.post(f"{self.url}/hydrate", json={"destination": str(destination), "confirm": True})
        assert answer.status_code == 200, answer.text
        return self.admin.wait_for_end(answer.json()["job_id"])

    def syncs(self) -> list[dict[str, Any]]:
        narrowed = {"repository_id": self.repository["id"], "kind": "sync"}
        found: list[dict[str, Any]] = self.admin.get("/api/operations/", params=narrowed).json()["items"]
        return found

    def wait_for_syncs(self, number: int) -> list[dict[str, Any]]:
        wait_until(lambda: len(self.syncs()) >= number, what=f"{number} syncs are queued")
        return [self.admin.wait_for_end(item["id"]) for item in self.syncs()]

    def cell(self) -> dict[str, Any]:
        cells = self.admin.get(f"/api/repositories/{self.repository['id']}/status").json()["cells"]
        found: dict[str, Any] = next(cell for cell in cells if cell["cell"] == "mirror")
        return found


def local_remote(running: Running) -> int:
    body = {"name": running.new_name("local"), "provider": "local"}
    answer = running.admin.post("/api/rclone/remotes", json=body)
    assert answer.status_code == 201, answer.text
    remote_id: int = answer.json()["id"]
    return remote_id


def mirrored(running: Running, **more: Any) -> Mirrored:
    """Create a repository and set its mirror; its initial sync has completed."""
    repository = running.new_repository()
    return set_mirror(running, repository, **more)


def set_mirror(running: Running, repository: dict[str, Any], **more: Any) -> Mirrored:
    remote_id, folder = local_remote(running), running.new_path("mirror") / "of" / repository["name"]
    body = {"remote_id": remote_id, "path": str(folder), "mode": "manual", **more}
    answer = running.admin.put(f"/api/repositories/{repository['id']}/mirror", json=body)
    assert answer.status_code == 200, answer.text
    initial = running.admin.wait_for_end(answer.json()["sync_operation_id"])
    assert initial["status"] == "completed", initial
    return Mirrored(running, repository, remote_id, folder)


_SHARED: dict[int, Mirrored] = {}


def shared(running: Running) -> Mirrored:
    """The manual mirror of a repository with an archive. Tests that change either restore its previous state."""
    if id(running) not in _SHARED:
        repository = running.new_repository()
        assert running.admin.wait_for_end(running.admin.start_backup(repository))["status"] == "completed"
        _SHARED[id(running)] = set_mirror(running, repository)
    return _SHARED[id(running)]
