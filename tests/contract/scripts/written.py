"""Scripts over HTTP."""

from dataclasses import dataclass
from typing import Any

from tests.support.running import Running
from tests.support.service import Client

URL = "/api/scripts"


@dataclass
class Written:
    """Writes scripts and runs them."""

    running: Running

    @property
    def admin(self) -> Client:
        return self.running.admin

    def new(self, content: str, **more: Any) -> dict[str, Any]:
        answer = self.admin.post(f"{URL}/", json={"name": self.running.new_name("script"), "content": content, **more})
        assert answer.status_code == 201, answer.text
        created: dict[str, Any] = answer.json()
        return created

    def change(self, script: dict[str, Any], **more: Any) -> dict[str, Any]:
        answer = self.admin.put(f"{URL}/{script['id']}", json=more)
        assert answer.status_code == 200, answer.text
        changed: dict[str, Any] = answer.json()
        return changed

    def start(self, script: dict[str, Any], **asked: Any) -> int:
        answer = self.admin.post(f"{URL}/{script['id']}/run", json=asked)
        assert answer.status_code == 200, answer.text
        started: int = answer.json()["job_id"]
        return started

    def run(self, script: dict[str, Any], **asked: Any) -> tuple[dict[str, Any], list[str]]:
        """Run a script; return the ended operation and the script's output."""
        number = self.start(script, **asked)
        ended = self.admin.wait_for_end(number)
        return ended, self.admin.log_lines(number)[1:]
