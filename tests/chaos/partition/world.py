"""A service, a faulty proxy in front of it, and a managed machine behind the proxy."""

import contextlib
import json
import random
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from backup_engine import shim
from tests.chaos.partition.faulty_proxy import FaultyProxy, Weather
from tests.support.agent_site import AgentSite
from tests.support.agents import AgentProcess
from tests.support.processes import command_line
from tests.support.service import ServiceProcess

GRACE_SECONDS = 5
SKEWED = ("-m", "tests.chaos.partition.skewed_agent")


@dataclass
class PartitionedWorld:
    folder: Path
    weather: Weather = field(default_factory=lambda: Weather(random.Random(0)))
    site: AgentSite = field(init=False)
    proxy: FaultyProxy = field(init=False)

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True)
        self.site = AgentSite.build(self.folder)
        self.proxy = FaultyProxy(self.site.service.port, self.weather)
        self.agent.stop()
        self._go_through_proxy()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.site.end()
        self.proxy.close()

    def _go_through_proxy(self) -> None:
        file = self.agent.config / "config.toml"
        text = file.read_text().replace(self.site.service.url, self.proxy.url)
        text = text.replace("max_backoff_seconds = 300.0", "max_backoff_seconds = 1.0")
        file.write_text(text.replace("cancel_grace_seconds = 30.0", f"cancel_grace_seconds = {GRACE_SECONDS}"))

    @property
    def agent(self) -> AgentProcess:
        return self.site.agent

    @property
    def service(self) -> ServiceProcess:
        return self.site.service

    def begin_round(self, seed: int, fault: float, skew: float) -> None:
        self.weather.chance = random.Random(seed)
        self.weather.fault = fault
        self.weather.is_down = False
        self.weather.fates.clear()
        environment = {"SKEW": str(skew), "PYTHONPATH": str(Path(__file__).resolve().parents[3])}
        if self.agent.is_running() and self.agent.environment == environment:
            return
        self.agent.environment = environment
        self.agent.program = (sys.executable, *SKEWED)
        if self.agent.is_running():
            self.agent.stop()
        self.start_agent()

    def start_agent(self) -> None:
        self.agent.start()

    def heal(self) -> None:
        self.weather.is_down = False
        self.weather.fault = 0.0
        if not self.service_is_up():
            self.service.restart()
        if not self.agent.is_running():
            self.start_agent()

    def service_is_up(self) -> bool:
        return self.service.process is not None and self.service.process.poll() is None

    def agent_has_let_go(self) -> bool:
        return not any((self.agent.state / "jobs").iterdir())

    # --- jobs -------------------------------------------------------------------------------------------------------

    def start_backup(self, pace: str) -> int:
        return self.site.backup(pace)

    def cancel(self, job: int) -> None:
        self.site.admin.post(f"/api/operations/{job}/cancel")

    def wait_for_end(self, job: int, seconds: float) -> dict[str, Any]:
        return self.site.wait_for_end(job, seconds)

    def shims(self, job: int) -> list[int]:
        return [pid for pid in self.agent.shim_pids(job) if f"{shim.__file__} " in command_line(pid)]

    def engines(self, job: int) -> list[int]:
        found = []
        for record in self.agent.job_folder(job).glob("steps/*/*/engine.json"):
            with contextlib.suppress(OSError, ValueError):
                known = json.loads(record.read_bytes())
                if shim.process_start_time(known["pid"]) == known["start_time"] and command_line(known["pid"]):
                    found.append(known["pid"])
        return found
