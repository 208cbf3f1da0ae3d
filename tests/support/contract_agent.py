"""An agent as someone else might write it: plain HTTP by the written contract, the real engine, and no code of
Holdfast.

It does only what the contract's first version requires: it runs backups, reports how they ended, and names archives by
the given template.
"""

import json
import os
import subprocess
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

CAPABILITIES = ["backup.create", "backup.cancel", "logs.stream"]
HEARTBEAT_SECONDS = 0.5
POLL_SECONDS = 0.2


class ContractAgent:
    def __init__(self, server_url: str, engine: Path, home: Path) -> None:
        self._url = server_url
        self._engine = engine
        self._home = home
        self._token: str | None = None
        self._running: list[int] = []
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self.agent_id = ""

    def register(self, enrollment_token: str) -> str:
        """Register and return the agent's public id."""
        answer = self._send("POST", "/api/agents/register", {"enrollment_token": enrollment_token, **self._profile()})
        self._token, self.agent_id = answer["agent_token"], answer["agent_id"]
        self._heartbeat()
        return self.agent_id

    def start(self) -> None:
        for work in (self._beat_forever, self._poll_forever):
            thread = threading.Thread(target=work, daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(60)

    # --- the contract -------------------------------------------------------------------------------------------------

    def _profile(self) -> dict[str, Any]:
        version = subprocess.run([self._engine, "--version"], capture_output=True, text=True, check=True).stdout
        engine = {"major": 1, "version": version.split()[-1], "path": str(self._engine)}
        return {
            "name": "a foreign agent",
            "hostname": "elsewhere",
            "os": "linux",
            "arch": "x86_64",
            "agent_version": "0.1",
            "engine_versions": [engine],
            "capabilities": CAPABILITIES,
        }

    def _heartbeat(self) -> None:
        known = self._profile()
        wanted = ("hostname", "agent_version", "engine_versions", "capabilities")
        body = {"agent_id": self.agent_id, "running_job_ids": self._running, **{name: known[name] for name in wanted}}
        self._send("POST", "/api/agents/heartbeat", body)

    def _beat_forever(self) -> None:
        while not self._stopping.wait(HEARTBEAT_SECONDS):
            self._heartbeat()

    def _poll_forever(self) -> None:
        while not self._stopping.wait(POLL_SECONDS):
            for job in self._send("GET", "/api/agents/jobs/poll?limit=1")["jobs"]:
                self._do(job["id"], job["payload"])

    def _do(self, job: int, payload: dict[str, Any]) -> None:
        assert payload["schema_version"] == 1
        assert payload["job_kind"] == "backup.create"
        self._send("POST", f"/api/agents/jobs/{job}/claim")
        self._running = [job]
        self._send("POST", f"/api/agents/jobs/{job}/start", {})
        began = time.time()
        ended = self._create(payload)
        for number, line in enumerate(ended.stderr.splitlines(), 1):
            self._send(
                "POST", f"/api/agents/jobs/{job}/logs", {"sequence": number, "stream": "stderr", "message": line}
            )
        if ended.returncode > 1:
            body = {"error_message": ended.stderr[-500:], "return_code": ended.returncode}
            self._send("POST", f"/api/agents/jobs/{job}/fail", body)
        else:
            stats = json.loads(ended.stdout)["archive"]["stats"]
            counts = {name: stats[name] for name in ("original_size", "compressed_size", "deduplicated_size", "nfiles")}
            result = {
                "archive_name": payload["backup"]["archive_name"],
                "return_code": ended.returncode,
                "stats": counts,
                "seconds": time.time() - began,
            }
            self._send("POST", f"/api/agents/jobs/{job}/complete", {"result": result})
        self._running = []

    def _create(self, payload: dict[str, Any]) -> "subprocess.CompletedProcess[str]":
        """Create the archive with what the contract specifies and nothing more: without the comment that contains the
        key.
        """
        backup, repository = payload["backup"], payload["repository"]
        variables = {
            name: payload["secrets"][value["secret_ref"]]["value"] if isinstance(value, dict) else value
            for name, value in backup["environment"].items()
        }
        return subprocess.run(
            [
                self._engine,
                "create",
                "--json",
                "--compression",
                backup["compression"],
                f"{repository['repository_path']}::{backup['archive_name']}",
                *backup["source_paths"],
            ],
            env={"PATH": os.environ["PATH"], "HOME": str(self._home), "LANG": "C.UTF-8", **variables},
            capture_output=True,
            text=True,
            check=False,
        )

    def _send(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"Content-Type": "application/json"}
        if self._token is not None:
            headers["X-Backup-Agent-Authorization"] = f"Bearer {self._token}"
        content = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(f"{self._url}{path}", content, headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())
