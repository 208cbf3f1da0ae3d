"""The second machine of the demo: a real agent with its own repository."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

NAME = "workshop-pc"
STOP_SECONDS = 30


class Machine:
    """An agent in its own folder, as it would run on another machine."""

    def __init__(self, place: Path, house: Path) -> None:
        self.folder = place / "machines" / NAME
        self.files = self.folder / "home"
        self._program = str(house / ".venv/bin/backup-agent")
        self._log = place / "agent.log"
        self._environment = {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "BACKUP_AGENT_CONFIG_DIR": str(self.folder / "config"),
            "BACKUP_AGENT_STATE_DIR": str(self.folder / "state"),
            "BACKUP_AGENT_BORG1": os.environ.get("HOLDFAST_BORG1") or "borg",
        }
        self._process: subprocess.Popen[bytes] | None = None

    def enrol(self, url: str, ask: Callable[..., Any]) -> int:
        """Enrol this machine at the service; return its number there."""
        self.files.mkdir(parents=True)
        for number in range(12):
            (self.files / f"drawing-{number:02}.svg").write_text(f"<svg><text>{number}</text></svg>\n" * (number + 1))
        made = ask("POST", "/api/managed-machines/enrollment-tokens", {"name": NAME, "expires_in_minutes": 10})
        command = [self._program, "register", "--server", url, "--token", "-", "--name", NAME]
        done = subprocess.run(
            command, env=self._environment, input=f"{made['token']}\n", capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise SystemExit(f"demo: the agent could not enrol: {done.stderr.strip()}")
        with self._log.open("wb") as log:
            self._process = subprocess.Popen([self._program, "run"], env=self._environment, stdout=log, stderr=log)
        number: int = ask("GET", "/api/managed-machines/agents")["agents"][0]["id"]
        return number

    def repository(self, number: int, passphrase: str) -> dict[str, Any]:
        """The body of the request that creates the repository."""
        return {
            "name": NAME,
            "path": str(self.folder / "repository"),
            "passphrase": passphrase,
            "source_paths": [str(self.files)],
            "execution_target": "agent",
            "agent_machine_id": number,
            "retention": {"keep_daily": 14},
        }

    def stop(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
