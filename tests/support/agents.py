"""A real `backup-agent` process with its own configuration, state and engine, as on a separate machine."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from backup_engine.process import NICENESS_VARIABLE
from tests.support import witnesses
from tests.support.processes import processes_naming
from tests.support.service import PATIENCE, Client, wait_until
from tests.support.warm_engines import warm_path, warm_program

PROGRAM = Path(sys.executable).parent / "backup-agent"
PASSPHRASE = "a passphrase of the tests"


@dataclass(eq=False)
class AgentProcess:
    """Registers, starts, kills and restarts an agent on one folder."""

    folder: Path
    engine: Path
    server_url: str
    environment: dict[str, str] = field(default_factory=dict)
    program: tuple[str, ...] = (str(PROGRAM),)
    options: tuple[str, ...] = ("--log-level", "debug")
    process: "subprocess.Popen[bytes] | None" = None
    agent_id: int = 0
    """The number of the agent at the service."""

    @property
    def config(self) -> Path:
        return self.folder / "config"

    @property
    def state(self) -> Path:
        return self.folder / "state"

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": warm_path(),
            "LANG": "C.UTF-8",
            "BACKUP_AGENT_CONFIG_DIR": str(self.config),
            "BACKUP_AGENT_STATE_DIR": str(self.state),
            "BACKUP_AGENT_BORG1": str(self.engine),
            "PYTHONFAULTHANDLER": "1",
            NICENESS_VARIABLE: "0",
            **self.environment,
        }

    def run(self, *arguments: str, given: str | None = None) -> "subprocess.CompletedProcess[str]":
        """Run a command of the agent to its end."""
        return subprocess.run(
            [*self.program, *arguments],
            env=self._environment(),
            input=given,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )

    def register(self, admin: Client, name: str = "test machine", *more: str) -> "AgentProcess":
        """Register at the service with a token of its administrator."""
        told = ("--server", self.server_url, "--token", "-", "--name", name, *more)
        ended = self.run("register", *told, given=f"{enrollment_token(admin)}\n")
        assert ended.returncode == 0, ended.stderr
        own_id = json.loads(self.run("status", "--json").stdout)["agent_id"]
        agents = admin.get("/api/managed-machines/agents").json()["agents"]
        self.agent_id = next(agent["id"] for agent in agents if agent["agent_id"] == own_id)
        return self

    def start(self) -> "AgentProcess":
        witnesses.call(self)
        with (self.folder / "agent.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*self.program, "run", *self.options],
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return self

    def wait_until_online(self, admin: Client) -> None:
        path = f"/api/managed-machines/agents/{self.agent_id}"
        wait_until(lambda: admin.get(path).json()["status"] == "online", what=f"the agent is online: {self.own_log()}")

    def kill(self) -> None:
        """Kill the agent alone with SIGKILL; engines under their shims continue."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self, seconds: float = PATIENCE) -> int:
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)

    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def own_log(self) -> str:
        file = self.folder / "agent.log"
        return file.read_text(errors="replace") if file.exists() else ""

    def account(self) -> str:
        """For `witnesses`: whether the agent is running, its last log lines, and the files of its jobs."""
        if self.process is None:
            return ""
        state = "runs" if self.is_running() else f"ended with {self.process.returncode}"
        held = sorted(str(file.relative_to(self.state)) for file in self.state.glob("jobs/**/*") if file.is_file())
        processes = witnesses.processes_of(str(self.folder))
        log = witnesses.end_of_file(self.folder / "agent.log")
        return f"agent {self.agent_id} {state}, its log:\n{log}\n  its jobs: {held}\n  its processes:\n{processes}"

    # --- engines and processes --------------------------------------------------------------------------------------

    def job_folder(self, job_id: int) -> Path:
        return self.state / "jobs" / str(job_id)

    def engine_pid(self, job_id: int, step: str = "create") -> int:
        """The pid of a job's engine, once it exists."""

        def pid() -> int | None:
            for record in self.job_folder(job_id).glob(f"steps/*/{step}/engine.json"):
                with contextlib.suppress(OSError, ValueError):
                    return int(json.loads(record.read_bytes())["pid"])
            return None

        return wait_until(pid, pause=0.01, what=f"the engine of job {job_id} runs: {self.own_log()[-2000:]}")

    def shim_pids(self, job_id: int) -> list[int]:
        return list(processes_naming(f"{self.job_folder(job_id)}/"))

    def ask_engine(self, program: Path, *arguments: str, passphrase: str = PASSPHRASE) -> str:
        """Run the real engine under the agent's identity, so that it may remove locks of killed engines."""
        environment = {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "LC_ALL": "C.UTF-8",
            "BORG_BASE_DIR": str(self.state / "engine"),
            "BORG_HOST_ID": (self.state / "install-id").read_text().strip(),
            "BORG_PASSPHRASE": passphrase,
            "BORG_SELFTEST": "disabled",
        }
        command = [str(warm_program(program)), "--lock-wait", "20", *arguments]
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, f"borg {arguments} ended with {ran.returncode}: {ran.stderr}"
        return ran.stdout

    def end_everything(self) -> None:
        """Leave no process behind."""
        if self.is_running():
            self.kill()
        for pid in processes_naming(str(self.folder)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def enrollment_token(admin: Client, minutes: int = 60) -> str:
    body = {"name": "a machine of the tests", "expires_in_minutes": minutes}
    answer = admin.post("/api/managed-machines/enrollment-tokens", json=body)
    assert answer.status_code in (200, 201), answer.text
    token: str = answer.json()["token"]
    return token


def create_agent_repository(
    admin: Client, agent: AgentProcess, path: Path, sources: list[Path | str], **more: Any
) -> dict[str, Any]:
    """Have the agent create a repository on its machine; return it when it is ready."""
    made = admin.create_repository(path, sources, execution_target="agent", agent_machine_id=agent.agent_id, **more)
    ended = admin.wait_for_end(made["setup_operation_id"])
    assert ended["status"] == "completed", (ended, agent.own_log()[-3000:])
    found: dict[str, Any] = admin.get(f"/api/repositories/{made['id']}").json()
    return found
