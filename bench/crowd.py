"""200 slow clients of each sort must not slow down normal work: its p99 with them, relative to the idle service just
before.

As a control, another user starts as many engines as one user may run at once; what those cost is due to the machine.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import psutil

from backup_engine.process import ENGINE_NICENESS
from backup_protocol import AUTHORIZATION_HEADER
from bench.crowd_support.clients import SORTS
from bench.filling import create
from bench.fleet import enroll
from bench.report import Bench, Measurement, Options
from bench.running import folder, pid_of, serving, settings_for, signed_in
from bench.timing import milliseconds, percentile
from holdfast.settings import Settings
from tests.support.service import Client, ServiceProcess, wait_until

CLIENTS, QUICK_CLIENTS = 200, 40
SECONDS, QUICK_SECONDS = 30.0, 8.0
SETTLE_SECONDS = 3.0
PAUSE_SECONDS = 0.01
MOST_TIMES_IDLE = 3.0
CONTENT_BYTES = 32 * 1024 * 1024
BESIDE = 8
"""Number of agents in the normal work, apart from those with long polls."""

Calls = dict[str, Callable[[], object]]


def run(options: Options) -> list[Measurement]:
    number = QUICK_CLIENTS if options.quick else CLIENTS
    seconds = QUICK_SECONDS if options.quick else SECONDS
    with folder() as place, settings_for(place / "data", options.store) as settings:
        database = create(settings)
        agents = enroll(database, number + BESIDE)
        database.dispose()
        with serving(settings) as service:
            admin = signed_in(service)
            plan = the_plan(service, admin, place, [token for _, token in agents[BESIDE:]], number)
            calls = normal_work(service, admin, agents[:BESIDE])
            latencies(calls, seconds / 3)  # the first round of each call is not representative
            told: list[Measurement] = []
            for sorts in phases(options.only):
                idle = latencies(calls, seconds)
                with crowd({**plan, "sorts": sorts}):
                    time.sleep(SETTLE_SECONDS)
                    beside = latencies(calls, seconds)
                    told += compared(sorts, idle, beside, number, service)
                time.sleep(SETTLE_SECONDS)
            if options.only:
                return told
            idle = latencies(calls, seconds)
            told += compared(["nobody"], idle, latencies(calls, seconds), 0, service)
            with bare_engines(place, settings):
                time.sleep(SETTLE_SECONDS)
                told += compared(["bare engines of others"], idle, latencies(calls, seconds), 0, service)
    return told


def phases(only: str) -> list[list[str]]:
    """The sorts of clients that run at the same time, phase by phase."""
    return [[only]] if only else [*([name] for name in SORTS), list(SORTS)]


def the_plan(service: ServiceProcess, admin: Client, place: Path, agents: list[str], number: int) -> dict[str, Any]:
    source = place / "source"
    source.mkdir()
    (source / "content").write_bytes(os.urandom(CONTENT_BYTES))
    repository = admin.create_repository(place / "repository", [source], encryption="none", passphrase=None)
    assert admin.wait_for_end(admin.start_backup(repository))["status"] == "completed"
    base, archive = its_archive(admin, repository)
    bare = admin.create_repository(
        place / "not indexed", [source], encryption="none", passphrase=None, index_mode="off"
    )
    assert admin.wait_for_end(admin.start_backup(bare))["status"] == "completed"
    bare_base, bare_archive = its_archive(admin, bare)
    return {
        "port": service.port,
        "number": number,
        "credential": f"X-Backup-Authorization: {admin.headers['X-Backup-Authorization']}",
        "agents": agents,
        "live": f"{base}/live",
        "folders": f"{bare_base}/{bare_archive['id']}/browse",
        "download": f"{base}/{archive['id']}/download",
        "simulate": f"/api/repositories/{repository['id']}/retention/simulate",
        "calendar": a_full_calendar(admin),
    }


def a_full_calendar(admin: Client) -> str:
    """The calendar of a schedule that begins after the bench is over."""
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    often = {"name": "often", "cron_expression": "*/5 * * * *", "starts_at": tomorrow.isoformat()}
    answer = admin.post("/api/schedules/", json={**often, "targets": {"all": True}})
    assert answer.status_code == 201, answer.text
    return f"/api/schedules/calendar?{urlencode({'until': (tomorrow + timedelta(days=60)).isoformat()})}"


def its_archive(admin: Client, repository: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    base = f"/api/repositories/{repository['id']}/archives"
    archive: dict[str, Any] = wait_until(lambda: admin.get(base).json()["archives"], what="the archive is known")[0]
    return base, archive


def normal_work(service: ServiceProcess, admin: Client, agents: Sequence[tuple[str, str]]) -> Calls:
    turns = {"heartbeat": 0, "poll": 0}
    machines = [(agent_id, service.client(), token) for agent_id, token in agents]
    for _, client, token in machines:
        client.headers[AUTHORIZATION_HEADER] = f"Bearer {token}"

    def machine(what: str) -> tuple[str, Client]:
        turns[what] += 1
        agent_id, client, _ = machines[turns[what] % len(machines)]
        return agent_id, client

    def heartbeat() -> object:
        agent_id, client = machine("heartbeat")
        body = {
            "agent_id": agent_id,
            "hostname": "machine",
            "agent_version": "0.1.0",
            "engine_versions": [{"major": 1, "version": "1.4.0", "path": "/usr/bin/borg"}],
            "capabilities": ["backup.create", "backup.cancel", "logs.stream"],
            "running_job_ids": [],
        }
        return _good(client.post("/api/agents/heartbeat", json=body))

    other = service.client()
    return {
        "/health/ready": lambda: _good(other.get("/health/ready")),
        "auth/me": lambda: _good(admin.get("/api/auth/me")),
        "heartbeat": heartbeat,
        "poll": lambda: _good(machine("poll")[1].get("/api/agents/jobs/poll")),
    }


def _good(answer: Any) -> object:
    assert answer.status_code == 200, answer.text
    return answer


def latencies(calls: Calls, seconds: float) -> dict[str, list[float]]:
    """Make the calls in turn, so that a slow moment of the machine affects all of them."""
    told: dict[str, list[float]] = {name: [] for name in calls}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for name, call in calls.items():
            began = time.perf_counter()
            call()
            told[name].append(time.perf_counter() - began)
        time.sleep(PAUSE_SECONDS)
    return told


@contextmanager
def bare_engines(place: Path, settings: Settings) -> Iterator[None]:
    """Repeatedly run as many engines as the requests of one user may use at once, with the service's niceness."""
    nice = (
        f"echo {ENGINE_NICENESS} >/proc/self/autogroup; while :; do nice -n {ENGINE_NICENESS} $0 list $1 "
        ">/dev/null; done"
    )
    environment = {**os.environ, "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes"}
    loops = [
        subprocess.Popen(
            ["/bin/sh", "-c", nice, settings.borg1, str(place / "repository")],
            env={**environment, "BORG_BASE_DIR": str(place / f"base-{number}")},
            start_new_session=True,
        )
        for number in range(settings.engine_requests_per_user)
    ]
    try:
        yield
    finally:
        for loop in loops:
            os.killpg(loop.pid, signal.SIGKILL)
            loop.wait()


@contextmanager
def crowd(plan: dict[str, Any]) -> Iterator[None]:
    """Run the clients at the lowest priority: real clients are on other machines and take no processor time from the
    service.
    """
    command = [sys.executable, "-m", "bench.crowd_support.clients"]
    clients = subprocess.Popen(
        ["/bin/sh", "-c", 'echo 19 >/proc/self/autogroup; exec nice -n 19 "$@"', "sh", *command],
        stdin=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert clients.stdin is not None
    clients.stdin.write(json.dumps(plan) + "\n")
    clients.stdin.flush()
    try:
        yield
    finally:
        clients.stdin.close()
        clients.wait(60)


def compared(
    sorts: list[str],
    idle: dict[str, list[float]],
    beside: dict[str, list[float]],
    number: int,
    service: ServiceProcess,
) -> list[Measurement]:
    who = "all sorts at once" if len(sorts) > 1 else sorts[0]
    process = psutil.Process(pid_of(service))
    engines = sum("borg" in child.name() for child in process.children(recursive=True))
    megabytes = process.memory_info().rss / 1e6
    told = []
    for name, before in idle.items():
        first, now = percentile(before, 99), percentile(beside[name], 99)
        note = f"{milliseconds(first):.1f} → {milliseconds(now):.1f} ms, {len(beside[name])} calls, {engines} engines"
        limit = MOST_TIMES_IDLE if number else None
        told.append(Measurement(f"{number} x {who}: p99 of {name} / idle", now / first, "x", limit, note))
    told.append(Measurement(f"{number} x {who}: memory of the service", megabytes, "MB"))
    return told


BENCH = Bench("beside 200 slow clients of each sort, p99 of normal work at most 3 x that of the idle service", run)
