"""The cost of single requests, compared with the bare framework in the same run.

The limits apply to processor time: on a machine with other work, rates by the clock mostly reflect that work. On an
idle machine both agree, because either server has one event loop.
"""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

import psutil
from sqlalchemy import text

from bench.filling import fill, prepare
from bench.report import Bench, Measurement, Options
from bench.running import folder, pid_of, serving, settings_for, signed_in
from bench.timing import milliseconds, percentile, processor_seconds
from holdfast.storage.session import Database
from tests.support.service import ServiceProcess, end_with_parent, free_port, wait_until

SECONDS, QUICK_SECONDS = 2.0, 0.7
ROUNDS, QUICK_ROUNDS = 5, 3
FEW, MANY, MOST = 8, 256, 512
REPOSITORIES = 12
OPERATIONS = 200
LOGINS = 512
MOST_MEGABYTES = 150.0
COMMIT_SECONDS = 0.01


@dataclass(frozen=True)
class Target:
    """A path, and the minimum share of the bare asynchronous route's rate that it must reach."""

    name: str
    path: str
    share: float | None = None
    is_bare: bool = False
    beside_commits: bool = False
    """Whether the store is written to at the same time, so that nothing can be cached for long."""


BARE = Target("bare async route", "/async", is_bare=True)
TARGETS = (
    BARE,
    Target("bare sync route with a dependency", "/sync", is_bare=True),
    Target("/health/live", "/health/live", 1 / 2),
    Target("/health/ready", "/health/ready"),
    Target("/api/auth/me", "/api/auth/me", 1 / 3),
    Target("10 operations", "/api/operations/?limit=10", 1 / 5),
    Target("12 repositories", "/api/repositories/", 1 / 5),
    Target("/api/auth/me beside commits", "/api/auth/me", beside_commits=True),
    Target("10 operations beside commits", "/api/operations/?limit=10", beside_commits=True),
    Target("12 repositories beside commits", "/api/repositories/", beside_commits=True),
)


@dataclass
class Result:
    times: list[float] = field(default_factory=list)
    seconds: float = 0.0
    cpu: float = 0.0
    errors: int = 0

    @property
    def rate(self) -> float:
        return len(self.times) / self.seconds

    @property
    def cost(self) -> float:
        """Processor time of the server per request."""
        return self.cpu / len(self.times)

    def add(self, other: "Result") -> None:
        self.times += other.times
        self.seconds += other.seconds
        self.cpu += other.cpu
        self.errors += other.errors


@dataclass(frozen=True)
class Site:
    """Both servers with their ports, and a credential of the service."""

    service: ServiceProcess
    bare: subprocess.Popen[bytes]
    bare_port: int
    headers: list[str]
    database: Database

    def ask(self, target: Target, connections: int, seconds: float) -> Result:
        port, pid = (self.bare_port, self.bare.pid) if target.is_bare else (self.service.port, pid_of(self.service))
        headers = [] if target.is_bare or target.path.startswith("/health") else self.headers
        plan = {
            "port": port,
            "path": target.path,
            "headers": headers,
            "connections": connections,
            "seconds": seconds,
        }
        with commits(self.database) if target.beside_commits else nullcontext():
            return _load(plan, pid)


def run(options: Options) -> list[Measurement]:
    seconds, rounds = (QUICK_SECONDS, QUICK_ROUNDS) if options.quick else (SECONDS, ROUNDS)
    with folder() as place, settings_for(place / "data", options.store) as settings:
        database = prepare(settings)
        keep_a_dozen(database)
        with serving(settings) as service, bare_framework() as (bare, port):
            admin = signed_in(service)
            credential = f"X-Backup-Authorization: {admin.headers['X-Backup-Authorization']}"
            site = Site(service, bare, port, [credential], database)
            found = in_turn(site, FEW, seconds, rounds)
            told = [measured for target in TARGETS for measured in rates(target, found[target], found[BARE])]
            told += crowded(in_turn(site, MANY, seconds, 1), in_turn(site, MOST, seconds, 1))
            told.append(Measurement("memory after all of it", _megabytes(service), "MB"))
            storm(service, LOGINS if not options.quick else LOGINS // 8)
            told.append(Measurement("memory after a storm of logins", _megabytes(service), "MB", MOST_MEGABYTES))
        database.dispose()
    return told


def keep_a_dozen(database: Database) -> None:
    """Leave twelve repositories and only finished operations: nothing waits, nothing runs."""
    fill(database, OPERATIONS)
    with database.engine.begin() as connection:
        connection.execute(text("DELETE FROM operations WHERE status IN ('pending', 'running')"))
        connection.execute(text(f"DELETE FROM repositories WHERE id > {REPOSITORIES}"))


@contextmanager
def commits(database: Database) -> Iterator[None]:
    """Commit to the store a hundred times a second."""
    done = threading.Event()

    def write() -> None:
        while not done.wait(COMMIT_SECONDS):
            with database.engine.begin() as connection:
                connection.execute(text("UPDATE users SET email = NULL WHERE username = 'quiet'"))

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    try:
        yield
    finally:
        done.set()
        writer.join()


def in_turn(site: Site, connections: int, seconds: float, rounds: int) -> dict[Target, Result]:
    """Measure all targets in turn, several times, so that a slow moment of the machine affects all of them."""
    found = {target: Result() for target in TARGETS}
    for _ in range(rounds):
        for target in TARGETS:
            found[target].add(site.ask(target, connections, seconds))
    return found


def rates(target: Target, found: Result, bare: Result) -> list[Measurement]:
    note = (
        f"{milliseconds(found.cost):.2f} ms of processor time, p99 {milliseconds(percentile(found.times, 99)):.1f} ms"
    )
    told = [Measurement(f"{target.name}: requests per second", found.rate, "/s", None, note)]
    if target.share is not None:
        by_clock, by_processor = bare.rate / found.rate, found.cost / bare.cost
        note = f"by the clock {by_clock:.2f} x, {found.errors} errors"
        what = f"{target.name}: processor time / bare async"
        told.append(Measurement(what, by_processor, "x", 1 / target.share, note))
    return told


def crowded(many: dict[Target, Result], most: dict[Target, Result]) -> list[Measurement]:
    told = []
    for target in TARGETS:
        p99 = milliseconds(percentile(many[target].times, 99))
        told.append(Measurement(f"{target.name}: p99 at {MANY} connections", p99, "ms"))
    for target in TARGETS:
        if not target.is_bare:
            errors = float(most[target].errors)
            told.append(Measurement(f"{target.name}: errors at {MOST} connections", errors, "", 0.0))
    return told


def storm(service: ServiceProcess, logins: int) -> None:
    """Log in repeatedly, including some attempts with wrong passwords."""
    for number in range(logins):
        client = service.client()
        password = "wrong" if number % 128 == 7 else None
        if password is not None:
            client.post("/api/auth/login", data={"username": f"nobody{number}", "password": password})
        else:
            signed_in(service)
        client.close()


@contextmanager
def bare_framework() -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    port = free_port()
    server = subprocess.Popen(
        [sys.executable, "-m", "bench.requests_support.bare", str(port)], preexec_fn=end_with_parent
    )
    try:
        wait_until(lambda: _listens(port), what="the bare framework answers")
        yield server, port
    finally:
        server.terminate()
        server.wait(30)


def _listens(port: int) -> bool:
    return any(
        one.laddr.port == port and one.status == psutil.CONN_LISTEN for one in psutil.net_connections(kind="tcp4")
    )


def _load(plan: dict[str, object], pid: int) -> Result:
    clock = processor_seconds(pid)
    with subprocess.Popen(
        [sys.executable, "-m", "bench.requests_support.load"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=end_with_parent,
    ) as load:
        assert load.stdin is not None
        assert load.stdout is not None
        load.stdin.write(json.dumps(plan) + "\n")
        load.stdin.flush()
        load.stdout.readline()
        time.sleep(0.1)
        before = clock()
        load.stdin.write("\n")
        load.stdin.flush()
        told = json.loads(load.stdout.readline())
        used = clock() - before
    return Result(told["times"], told["seconds"], used, told["errors"])


def _megabytes(service: ServiceProcess) -> float:
    return psutil.Process(pid_of(service)).memory_info().rss / 1e6


BENCH = Bench("against a bare async route: auth/me ≥ 1/3, lists ≥ 1/5, /health/live ≥ 1/2; 0 errors at 512", run)
