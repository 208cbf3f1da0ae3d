"""The resources of an idle agent."""

import os
import ssl
import subprocess
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.report import Bench, Measurement, Options
from bench.running import folder, installed_environment, serving, settings_for, signed_in
from bench.timing import milliseconds, processor_seconds
from tests.support.agents import AgentProcess, create_agent_repository
from tests.support.engines import ENGINES
from tests.support.service import ServiceProcess, wait_until
from tests.support.tls import tls_front

IDLE_MEGABYTES = 25.0
IDLE_PERCENT = 0.1
SECONDS, QUICK_SECONDS = 300.0, 60.0
IDLE_AGAIN_SECONDS = 300.0
SETTLED_SECONDS = 35.0
"""Enough for a heartbeat and two polls."""
GIVEN_BACK = 1_000_000


@dataclass(frozen=True, slots=True)
class Seen:
    megabytes: float
    share: float
    """Share of one core."""
    connections: int


def run(options: Options) -> list[Measurement]:
    """Measure two agents side by side: one over plain HTTP, one over HTTPS with the machine's certificate
    authorities.
    """
    seconds = QUICK_SECONDS if options.quick else SECONDS
    with ExitStack() as stack:
        place = stack.enter_context(folder())
        settings = stack.enter_context(settings_for(place / "data", options.store))
        service = stack.enter_context(serving(settings))
        address, certificate = stack.enter_context(tls_front(service.port, place))
        addresses = {"HTTP": (service.url, ()), "HTTPS": (address, ("--ca-file", str(certificate)))}
        agents = {name: prepared(place / name, service, *told) for name, told in addresses.items()}
        trust_the_machine(agents["HTTPS"], certificate, place / "authorities")
        for agent in agents.values():
            with installed_environment():
                agent.start()
            stack.callback(agent.stop)
        for agent in agents.values():
            wait_until((agent.state / "status.json").exists, 60, what="the first heartbeat")
        found = watch(agents, seconds)
        after_a_job = {name: after_job(service, agent, place / name) for name, agent in agents.items()}
    measured = [measurement for name, seen in found.items() for measurement in measurements(name, seen, seconds)]
    return [
        *measured,
        *(
            Measurement(
                f"resident memory of an idle agent after its first job, {name}", megabytes, "MB", IDLE_MEGABYTES
            )
            for name, megabytes in after_a_job.items()
        ),
    ]


def after_job(service: ServiceProcess, agent: AgentProcess, place: Path) -> float:
    """Megabytes of an agent that has created a repository, run a backup and become idle again."""
    admin = signed_in(service)
    (place / "source").mkdir()
    (place / "source" / "file").write_text("content")
    repository = create_agent_repository(admin, agent, place / f"repository-{place.name}", [place / "source"])
    assert admin.wait_for_end(admin.start_backup(repository))["status"] == "completed"
    assert agent.process is not None
    process = psutil.Process(agent.process.pid)
    busy = process.memory_info().rss
    wait_until(lambda: process.memory_info().rss < busy - GIVEN_BACK, IDLE_AGAIN_SECONDS, what="memory is given back")
    time.sleep(SETTLED_SECONDS)
    return float(process.memory_info().rss / 1e6)


def prepared(place: Path, service: ServiceProcess, address: str, more: tuple[str, ...]) -> AgentProcess:
    place.mkdir()
    agent = AgentProcess(place, ENGINES[max(ENGINES)], address, options=())
    with installed_environment():
        return agent.register(signed_in(service), place.name, *more)


def trust_the_machine(agent: AgentProcess, certificate: Path, authorities: Path) -> None:
    """Let the agent use the machine's certificate authorities, as most agents do; one more is added here."""
    known = Path(ssl.get_default_verify_paths().capath or "")
    authorities.mkdir()
    for name in os.listdir(known):
        (authorities / name).symlink_to((known / name).resolve())
    hashed = subprocess.run(
        ["openssl", "x509", "-noout", "-hash", "-in", certificate], check=True, capture_output=True, text=True
    ).stdout.strip()
    (authorities / f"{hashed}.0").symlink_to(certificate)
    agent.environment["SSL_CERT_DIR"] = str(authorities)
    config = agent.config / "config.toml"
    config.write_text("".join(line for line in config.open() if not line.startswith("ca_file")))


def measurements(name: str, seen: Seen, seconds: float) -> list[Measurement]:
    calls = seconds / 15 + seconds / 30
    return [
        Measurement(f"resident memory of an idle agent, {name}", seen.megabytes, "MB", IDLE_MEGABYTES),
        Measurement(
            f"processor of an idle agent, {name}", seen.share * 100, "%", IDLE_PERCENT, f"over {seconds:.0f} s"
        ),
        Measurement(f"processor of one heartbeat or poll, {name}", milliseconds(seen.share * seconds / calls), "ms"),
        Measurement(f"connections of an idle agent, {name}", seen.connections, "", 1),
    ]


def watch(agents: dict[str, AgentProcess], seconds: float) -> dict[str, Seen]:
    pids = {name: agent.process.pid for name, agent in agents.items() if agent.process is not None}
    used = {name: processor_seconds(pid) for name, pid in pids.items()}
    before = {name: read() for name, read in used.items()}
    time.sleep(seconds)
    found = {}
    for name, pid in pids.items():
        process = psutil.Process(pid)
        share = (used[name]() - before[name]) / seconds
        found[name] = Seen(process.memory_info().rss / 1e6, share, len(process.net_connections("tcp")))
    return found


BENCH = Bench("an idle agent: ≤ 25 MB, ≤ 0.1 % of a core, one connection", run)
