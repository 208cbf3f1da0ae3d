"""A repository with archives, and the jobs that are started on it."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tests.support.archive_sets import OwnEngine
from tests.support.running import Running
from tests.support.service import Client

STATUS = {
    *("id", "repository", "repository_id", "status", "started_at", "completed_at", "progress", "progress_message"),
    *("error_message", "error_key", "logs", "has_logs", "result", "archive_name", "trigger", "triggered_by", "run_id"),
    *("attempt", "queue_position", "queued_reason", "queued_behind_id", "warnings"),
}


@dataclass
class Made:
    running: Running
    repository: dict[str, Any]
    engine: OwnEngine

    @property
    def admin(self) -> Client:
        return self.running.admin

    @cached_property
    def viewer(self) -> Client:
        return self.running.client_with_right(self.repository, "viewer")

    @cached_property
    def operator(self) -> Client:
        return self.running.client_with_right(self.repository, "operator")

    @cached_property
    def account_token(self) -> str:
        return self.running.account_token()

    @property
    def url(self) -> str:
        return f"/api/repositories/{self.repository['id']}"

    def names(self) -> set[str]:
        return set(self.engine.archives(self.repository))

    def start(self, word: str, **body: Any) -> int:
        answer = self.admin.post(f"{self.url}/{word}", json=body)
        assert answer.status_code == 200, answer.text
        job_id: int = answer.json()["job_id"]
        return job_id

    def end_of(self, word: str, job_id: int) -> dict[str, Any]:
        """The status payload of a job once it has ended, from the route of its kind."""
        self.admin.wait_for_end(job_id)
        place = "/api/archives" if word == "delete" else "/api/repositories"
        answer = self.admin.get(f"{place}/{word}-jobs/{job_id}")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def run(self, word: str, **body: Any) -> dict[str, Any]:
        return self.end_of(word, self.start(word, **body))

    def read(self) -> dict[str, Any]:
        answer = self.admin.get(self.url)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def operations(self) -> list[int]:
        answer = self.admin.get("/api/operations/", params={"repository_id": self.repository["id"]})
        assert answer.status_code == 200, answer.text
        return [item["id"] for item in answer.json()["items"]]

    def traces(self) -> tuple[Any, ...]:
        """The state that a refused request must leave unchanged."""
        return self.operations(), self.read()
