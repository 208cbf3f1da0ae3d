"""How soon the service responds on a store with a long past, and its memory when idle."""

import http.client
import subprocess
import sys
import time

import psutil

from bench.filling import fill, prepare
from bench.report import Bench, Measurement, Options
from bench.running import folder, installed_environment, pid_of, settings_for, signed_in
from bench.timing import processor_seconds
from tests.support.service import ServiceProcess, wait_until

SECONDS_TO_READY = 2.0
IDLE_MEGABYTES = 120.0
IDLE_SECONDS = 3.0
STARTS = 5
FRAMEWORK = "import fastapi, uvicorn, sqlalchemy.orm, pydantic_settings, typer, structlog"


def run(options: Options) -> list[Measurement]:
    with folder() as place, settings_for(place / "data", options.store) as settings:
        database = prepare(settings)
        fill(database, options.rows())
        database.dispose()
        service = ServiceProcess(settings.data_dir, database_url=settings.database_url)
        time_start(service)  # the first start on a machine compiles modules and fills the disk cache
        starts = [time_start(service) for _ in range(STARTS)]
        wall, cpu = min(wall for wall, _ in starts), min(cpu for _, cpu in starts)
        framework = min(time_framework() for _ in range(STARTS))
        idle, used = weigh(service)
    rows = f"{options.rows():,} operations"
    return [
        Measurement(f"start to ready, {rows}", wall, "s", SECONDS_TO_READY, f"best of {STARTS}, processor {cpu:.2f} s"),
        Measurement(
            "processor time of a start / of loading the framework alone",
            cpu / framework,
            "x",
            None,
            f"{framework:.2f} s",
        ),
        Measurement(f"resident memory when idle, {rows}", idle, "MB", IDLE_MEGABYTES),
        Measurement("resident memory after 200 lists of 100", used, "MB"),
    ]


def time_start(service: ServiceProcess) -> tuple[float, float]:
    """Start and stop the service; return wall and processor seconds until it was ready."""
    with installed_environment():
        began = time.perf_counter()
        service.launch()
    wait_until(lambda: is_ready(service), 120, pause=0.005, what="the service is ready")
    wall, cpu = time.perf_counter() - began, processor_seconds(pid_of(service))()
    service.stop(60)
    return wall, cpu


def time_framework() -> float:
    """Processor seconds of a process that imports only the libraries that the service is built on."""
    before = psutil.Process().cpu_times()
    with installed_environment():
        subprocess.run([sys.executable, "-c", FRAMEWORK], check=True)
    after = psutil.Process().cpu_times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def is_ready(service: ServiceProcess) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=10)
    try:
        connection.request("GET", "/health/ready")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def weigh(service: ServiceProcess) -> tuple[float, float]:
    """The resident memory in megabytes after some idle seconds, and after some work."""
    with installed_environment():
        service.start()
    try:
        time.sleep(IDLE_SECONDS)
        idle = psutil.Process(pid_of(service)).memory_info().rss / 1e6
        client = signed_in(service)
        for _ in range(200):
            client.get("/api/operations/").raise_for_status()
        used = psutil.Process(pid_of(service)).memory_info().rss / 1e6
    finally:
        service.stop(60)
    return idle, used


BENCH = Bench("start with 1,000,000 operations in the store: ≤ 2 s to ready, ≤ 120 MB idle", run)
