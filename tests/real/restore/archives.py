"""Creates archives and restores them over HTTP."""

import os
import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.support.running import Running
from tests.support.service import PATIENCE, wait_until
from tests.support.trees import Seen, look_at, make_difficult_tree


@dataclass(frozen=True)
class Archive:
    repository: dict[str, Any]
    name: str


class Workshop:
    def __init__(self, running: Running) -> None:
        self.running = running

    @cached_property
    def difficult(self) -> tuple[Path, Archive]:
        """A difficult tree and its archive, which tests may read but must not change."""
        source = self.running.folder / "difficult"
        make_difficult_tree(source)
        return source, self.back_up(source)

    def back_up(self, *sources: Path, repository: dict[str, Any] | None = None) -> Archive:
        """Create one archive of some folders, in a new repository unless one is given."""
        path = self.running.folder / self.running.new_name("repository")
        made = repository or self.running.admin.create_repository(
            path, list(sources), encryption="none", passphrase=None, index_mode="off"
        )
        job_id = self.running.admin.start_backup(made, source_paths=[str(source) for source in sources])
        ended = self.running.admin.wait_for_end(job_id)
        assert ended["status"] == "completed", ended
        return Archive(made, ended["archive_name"])

    def back_up_with_engine(self, folder: Path, *arguments: str) -> Archive:
        """An archive created by the engine itself, for contents that the service would not combine."""
        path = self.running.folder / self.running.new_name("repository")
        made = self.running.admin.create_repository(
            path, [folder], encryption="none", passphrase=None, index_mode="off"
        )
        environment = {
            "PATH": os.environ["PATH"],
            "BORG_BASE_DIR": str(self.running.folder / "data" / "engine"),
            "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes",
        }
        program = self.running.process.environment["HOLDFAST_BORG1"]
        subprocess.run(
            [program, "create", f"{path}::made", *arguments], cwd=folder, env=environment, check=True, timeout=PATIENCE
        )
        return Archive(made, "made")

    def start(self, archive: Archive, destination: Path, **more: Any) -> int:
        body = {
            "repository_id": archive.repository["id"],
            "archive": archive.name,
            "destination": str(destination),
            **more,
        }
        answer = self.running.admin.post("/api/restore/start", json=body)
        assert answer.status_code == 200, answer.text
        job_id: int = answer.json()["job_id"]
        return job_id

    def restore(self, archive: Archive, destination: Path, **more: Any) -> dict[str, Any]:
        """The operation of a restore, once it has ended."""
        return self.running.admin.wait_for_end(self.start(archive, destination, **more))

    def status(self, job_id: int) -> dict[str, Any]:
        answer = self.running.admin.get(f"/api/restore/status/{job_id}")
        assert answer.status_code == 200, answer.text
        status: dict[str, Any] = answer.json()
        return status

    def archive_id(self, archive: Archive) -> int:
        """The id of an archive in the index; starts a resync if the archive is not in the index yet."""
        repository = f"/api/repositories/{archive.repository['id']}"

        def known() -> int | None:
            listed = self.running.admin.get(f"{repository}/archives").json()["archives"]
            return next((found["id"] for found in listed if found["name"] == archive.name), None)

        if known() is None:
            answer = self.running.admin.post(f"{repository}/resync")
            assert answer.status_code == 200, answer.text
        return wait_until(known, what=f"the index knows {archive.name}")

    def lane_is_free(self, archive: Archive) -> bool:
        queue = self.running.admin.get("/api/operations/queue").json()
        lanes = [lane for lane in queue["repositories"] if lane["repository_id"] == archive.repository["id"]]
        return not any(lane["lane_busy"] for lane in lanes)


def below(destination: Path, source: Path) -> Path:
    """Where a source is restored to with its full path."""
    return destination / source.relative_to("/")


def without(tree: dict[bytes, Seen], *names: bytes) -> dict[bytes, Seen]:
    return {path: seen for path, seen in tree.items() if path not in names}


def private_folders(root: Path) -> list[str]:
    return [path.name for path in root.rglob(".holdfast-restore-*")]


def same_tree(restored: Path, source: Path, *left_out: bytes) -> None:
    """Assert that two trees are equal, name by name, so that a difference is readable."""
    found, wanted = look_at(restored), without(look_at(source), *left_out)
    assert found.keys() == wanted.keys()
    differing = {path: (found[path], wanted[path]) for path in wanted if found[path] != wanted[path]}
    assert differing == {}
