"""A repository with one archive, and requests to restore and download it."""

from functools import cached_property
from pathlib import Path
from typing import Any

from tests.support.running import Finished, Running
from tests.support.service import Client, wait_until


class Known:
    def __init__(self, running: Running, finished: Finished | None = None) -> None:
        finished = finished or running.known
        self.running = running
        self.admin = running.admin
        self.repository = finished.repository
        self.source = Path(self.repository["source_paths"][0])
        self.archive: str = self.admin.operation(finished.job_id)["archive_name"]

    @cached_property
    def archive_id(self) -> int:
        """The id in the index, which the service updates after each backup."""
        return wait_until(self._in_index, what="the index knows the archive")

    def _in_index(self) -> int | None:
        listed = self.admin.get(f"/api/repositories/{self.repository['id']}/archives").json()["archives"]
        return next((archive["id"] for archive in listed if archive["name"] == self.archive), None)

    @cached_property
    def viewer(self) -> Client:
        return self.running.client_with_right(self.repository, "viewer")

    @cached_property
    def operator(self) -> Client:
        return self.running.client_with_right(self.repository, "operator")

    @property
    def downloads(self) -> str:
        return f"/api/repositories/{self.repository['id']}/archives/{self.archive_id}"

    def body(self, destination: Path | str, /, **more: Any) -> dict[str, Any]:
        """A valid request; a value of None leaves a field out."""
        body = {
            "repository_id": self.repository["id"],
            "archive": self.archive,
            "destination": str(destination),
            **more,
        }
        return {name: value for name, value in body.items() if value is not None}

    def restore(self, destination: Path, /, **more: Any) -> dict[str, Any]:
        """Run a restore to its end, and return its status."""
        answer = self.admin.post("/api/restore/start", json=self.body(destination, **more))
        assert answer.status_code == 200, answer.text
        self.admin.wait_for_end(answer.json()["job_id"])
        status: dict[str, Any] = self.admin.get(f"/api/restore/status/{answer.json()['job_id']}").json()
        return status

    def traces(self) -> list[int]:
        """The ids of all stored restores of this repository."""
        jobs = self.admin.get("/api/restore/jobs", params={"repository_id": self.repository["id"]}).json()["jobs"]
        return [job["id"] for job in jobs]
