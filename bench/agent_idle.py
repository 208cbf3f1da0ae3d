"""What an agent takes of its machine when it has nothing to do."""

import time

import psutil

from bench.report import Bench, Measurement, Options
from bench.running import folder, installed_environment, serving, settings_for, signed_in
from bench.timing import milliseconds, processor_seconds
from tests.support.agents import AgentProcess
from tests.support.engines import ENGINES
from tests.support.service import wait_until

IDLE_MEGABYTES = 25.0
IDLE_PERCENT = 0.1
SECONDS, QUICK_SECONDS = 300.0, 60.0


def run(options: Options) -> list[Measurement]:
    seconds = QUICK_SECONDS if options.quick else SECONDS
    with folder() as place, settings_for(place / "data", options.store) as settings, serving(settings) as service:
        machine = place / "machine"
        machine.mkdir()
        agent = AgentProcess(machine, ENGINES[max(ENGINES)], service.url)
        admin = signed_in(service)
        with installed_environment():
            agent.register(admin).start()
        try:
            wait_until(lambda: (agent.state / "status.json").exists(), 60, what="the first heartbeat")
            megabytes, share, connections = watch(agent, seconds)
        finally:
            agent.stop()
    calls = seconds / 15 + seconds / 30
    return [
        Measurement("resident memory of an idle agent", megabytes, "MB", IDLE_MEGABYTES),
        Measurement("processor of an idle agent", share * 100, "%", IDLE_PERCENT, f"over {seconds:.0f} s"),
        Measurement("processor of one heartbeat or poll", milliseconds(share * seconds / calls), "ms"),
        Measurement("connections of an idle agent", connections, "", 1),
    ]


def watch(agent: AgentProcess, seconds: float) -> tuple[float, float, int]:
    """Resident megabytes, share of a core, and open connections."""
    assert agent.process is not None
    seen = psutil.Process(agent.process.pid)
    used = processor_seconds(agent.process.pid)
    before = used()
    time.sleep(seconds)
    share = (used() - before) / seconds
    return seen.memory_info().rss / 1e6, share, len(seen.net_connections("tcp"))


BENCH = Bench("an idle agent: ≤ 25 MB, ≤ 0.1 % of a core, one connection", run)
