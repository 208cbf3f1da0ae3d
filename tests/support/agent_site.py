"""A service, a managed machine with a real agent, and a repository on it, for end-to-end tests."""

import contextlib
import os
import signal
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.support.agents import AgentProcess, create_agent_repository
from tests.support.engines import ENGINES
from tests.support.paced_engine import PacedEngine, lines_by_run
from tests.support.processes import processes_naming
from tests.support.service import PATIENCE, Client, ServiceProcess, wait_until


@dataclass(eq=False)
class AgentSite:
    folder: Path
    engine: PacedEngine
    service: ServiceProcess
    agent: AgentProcess
    repository: dict[str, Any] = field(default_factory=dict)

    @staticmethod
    def build(folder: Path, agent: AgentProcess | None = None, **settings: str) -> "AgentSite":
        """Build a site. `agent` may be one of another version, whose folder and engine are set here."""
        engine = PacedEngine(folder / "engine", ENGINES[max(ENGINES)])
        service = ServiceProcess(folder / "data", {"HOLDFAST_BORG1": str(engine.program), **settings})
        (folder / "machine").mkdir()
        machine = replace(agent or AgentProcess(folder, engine.program, ""), folder=folder / "machine")
        site = AgentSite(folder, engine, service, replace(machine, engine=engine.program))
        try:
            service.start()
            site.agent.server_url = service.url
            site.agent.register(site.admin).start()
            site.repository = create_agent_repository(
                site.admin, site.agent, folder / "repository", [engine.source("quick")]
            )
        except BaseException:
            site.end()
            raise
        return site

    def bring_up(self) -> None:
        """Start what is not running."""
        if self.service.process is None or self.service.process.poll() is not None:
            self.service.restart()
        if not self.agent.is_running():
            self.agent.start()

    @cached_property
    def admin(self) -> Client:
        return self.service.client().login()

    def backup(self, pace: str, **more: Any) -> int:
        return self.admin.start_backup(self.repository, source_paths=[str(self.engine.source(pace))], **more)

    def wait_for_said(self, job_id: int, count: int = 2) -> str:
        """Wait until a job's engine has printed some lines; return its run."""
        key = self.key_of(job_id)

        def run() -> str | None:
            mine = self.engine.starts_of(key)
            return mine[-1] if mine and self.engine.said(mine[-1]) >= count else None

        return wait_until(run, pause=0.02, what=f"job {job_id} says {count} lines: {self.agent.own_log()[-2000:]}")

    def key_of(self, job_id: int) -> str:
        """The operation's key from the payload of its job."""

        def key() -> str | None:
            job = self.admin.get(f"/api/managed-machines/agent-jobs/{job_id}").json()
            comment: str = ((job.get("payload") or {}).get("backup") or {}).get("comment") or ""
            return next((word.removeprefix("holdfast:") for word in comment.split() if "holdfast:" in word), None)

        return wait_until(key, pause=0.05, what=f"job {job_id} is handed out")

    def archives_with(self, key: str) -> int:
        """The number of archives with this key, counted with the engine itself."""
        return sum(f"holdfast:{key}" in comment.split() for comment in self.archive_comments())

    def archive_comments(self) -> list[str]:
        listed = self.agent.ask_engine(
            self.engine.engine, "list", "--format={comment}{NL}", str(self.repository["path"])
        )
        return listed.splitlines()

    def wait_for_end(self, job_id: int, seconds: float = PATIENCE) -> dict[str, Any]:
        try:
            return self.admin.wait_for_end(job_id, seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.agent.own_log()[-3000:]}") from error

    def check_log(self, job_id: int) -> None:
        """Check that the job's log contains every line that its engines printed, each once and in order."""
        found = lines_by_run(self.admin.log_lines(job_id))
        runs = self.engine.starts_of(self.key_of(job_id))
        assert set(found) <= set(runs)
        for run in runs:
            said, told = self.engine.said(run), found.get(run, [])
            assert told == list(range(1, len(told) + 1)), (run, told)
            # A killed engine may have printed a line and died before it recorded that.
            assert len(told) in (said, said + 1), (run, said, told)

    def end(self) -> None:
        self.agent.end_everything()
        if self.service.process is not None and self.service.process.poll() is None:
            self.service.kill()
        for pid in processes_naming(f"{self.folder}/"):  # engines that a test left running
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
