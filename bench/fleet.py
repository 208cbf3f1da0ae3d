"""The number of agents that one service can handle at the contract's intervals, its resources then, and the time until
all agents are back after a restart.
"""

import json
import resource
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass
from typing import Any

import psutil
from sqlalchemy import insert

from bench.filling import create
from bench.report import Bench, Measurement, Options
from bench.running import folder, installed_environment, pid_of, serving, settings_for
from bench.timing import milliseconds, percentile
from holdfast.agents.models import PREFIX_LENGTH, AgentMachine
from holdfast.kit import clock
from holdfast.kit.tokens import token_hash
from holdfast.storage.session import Database
from tests.support.service import ServiceProcess

AGENTS, QUICK_AGENTS = 10_000, 500
SECONDS, QUICK_SECONDS = 120.0, 35.0
WARM_UP = 30.0
P99_MILLISECONDS = 100.0
MEGABYTES = 512.0
WRITTEN_KILOBYTES = 20.0
"""Per second, by ten thousand idle agents."""
SETTLE_SECONDS = 60.0
BATCH = 500


def run(options: Options) -> list[Measurement]:
    number = QUICK_AGENTS if options.quick else AGENTS
    seconds = QUICK_SECONDS if options.quick else SECONDS
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # inherited by the service: each agent is a connection
    with folder() as place, settings_for(place / "data", options.store) as settings:
        database = create(settings)  # without repositories: the fleet is idle
        agents = enroll(database, number)
        database.dispose()
        with serving(settings) as service:
            told = watched(service, agents, seconds)
            settled = settled_after_restart(service, agents, 2 * SETTLE_SECONDS)
    return measurements(number, told, settled, options.store)


def enroll(database: Database, number: int) -> list[tuple[str, str]]:
    """Create agents in the store; return the id and the credential of each."""
    agents = [(uuid.uuid4().hex, f"bk_agent_{uuid.uuid4().hex}{uuid.uuid4().hex}") for _ in range(number)]
    now = clock.now()
    for first in range(0, number, BATCH):
        rows = [
            {
                "name": f"machine-{first + place}",
                "agent_id": agent_id,
                "token_hash": token_hash(token),
                "token_prefix": token[:PREFIX_LENGTH],
                "hostname": f"machine-{first + place}",
                "os": "linux",
                "arch": "x86_64",
                "agent_version": "0.1.0",
                "engine_versions": [{"major": 1, "version": "1.4.0", "path": "/usr/bin/borg"}],
                "capabilities": ["backup.create", "backup.cancel", "logs.stream"],
                "labels": {},
                "status": "pending",
                "created_at": now,
                "updated_at": now,
            }
            for place, (agent_id, token) in enumerate(agents[first : first + BATCH])
        ]
        with database.writing() as session:
            session.execute(insert(AgentMachine), rows)
    return agents


@dataclass(frozen=True, slots=True)
class Watched:
    heartbeats: list[float]
    polls: list[float]
    failures: dict[str, int]
    megabytes: float
    processor: float
    """Share of one core."""
    written: float
    """Kilobytes written to disk per second while all agents are known to be online."""


def drive(port: int, agents: list[tuple[str, str]], seconds: float, seed: int) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.fleet_support.drive", str(port), str(seconds), str(seed)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    json.dump(agents, process.stdin)
    process.stdin.close()
    process.stdin = None
    return process


def watched(service: ServiceProcess, agents: list[tuple[str, str]], seconds: float) -> Watched:
    """Let the fleet come online, then measure."""
    warm = drive(service.port, agents, WARM_UP, 1)
    warm.communicate(timeout=WARM_UP + 300)
    seen = psutil.Process(pid_of(service))
    fleet = drive(service.port, agents, seconds, 2)
    time.sleep(seconds / 4)  # until the last agents have come online and what was written for that is on the disk
    before, cpu, began = seen.io_counters().write_bytes, processor_time(seen), time.monotonic()
    output, _ = fleet.communicate(timeout=seconds + 300)
    took = time.monotonic() - began
    told: dict[str, Any] = json.loads(output)
    return Watched(
        told["heartbeats"],
        told["polls"],
        told["failures"],
        seen.memory_info().rss / 1e6,
        (processor_time(seen) - cpu) / took,
        (seen.io_counters().write_bytes - before) / took / 1000,
    )


def processor_time(seen: psutil.Process) -> float:
    """Processor time of the whole process, including threads that have ended."""
    times = seen.cpu_times()
    return float(times.user + times.system)


def settled_after_restart(service: ServiceProcess, agents: list[tuple[str, str]], seconds: float) -> float:
    """Seconds from the moment a restarted service is ready until it has answered every agent again."""
    fleet = drive(service.port, agents, seconds, 3)
    time.sleep(seconds / 4)
    service.kill()
    with installed_environment():
        service.start()
    ready = time.time()
    output, _ = fleet.communicate(timeout=seconds + 300)
    first = [
        min((at for at in times if at >= ready), default=float("inf")) for times in json.loads(output)["answered_at"]
    ]
    missing = len(agents) - len(first)
    return float("inf") if missing else max(first) - ready


def measurements(number: int, told: Watched, settled: float, store: str) -> list[Measurement]:
    answered = len(told.heartbeats) + len(told.polls)
    failed = sum(told.failures.values())
    on = f"{number:,} agents, {store}"
    return [
        Measurement(
            f"heartbeat p99, {on}",
            milliseconds(percentile(told.heartbeats, 99)),
            "ms",
            P99_MILLISECONDS,
            f"median {milliseconds(percentile(told.heartbeats, 50)):.1f} ms, {len(told.heartbeats)} answered",
        ),
        Measurement(
            f"poll p99, {on}",
            milliseconds(percentile(told.polls, 99)),
            "ms",
            P99_MILLISECONDS,
            f"median {milliseconds(percentile(told.polls, 50)):.1f} ms, {len(told.polls)} answered",
        ),
        Measurement(f"requests not answered, {on}", failed, "", 0, f"{answered} answered; {told.failures or 'none'}"),
        Measurement(f"resident memory, {on}", told.megabytes, "MB", MEGABYTES),
        Measurement(f"processor, {on}", told.processor * 100, "%", None, "of one core"),
        Measurement(f"written to the disk by an idle fleet, {on}", told.written, "kB/s", WRITTEN_KILOBYTES),
        Measurement(f"every agent answered after a restart, {on}", settled, "s", SETTLE_SECONDS),
    ]


BENCH = Bench("agents on 2 cores, heartbeat each 30 s, poll each 15 s: 10,000 held, p99 ≤ 100 ms, ≤ 512 MB", run)
