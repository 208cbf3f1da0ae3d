"""`python -m bench.fleet_support.drive PORT SECONDS SEED < agents.json`: many agents on persistent connections, in one
process.

Each sends a heartbeat every 30 seconds and a poll every 15, at its own times, whether or not the previous answer came
in time (an open loop, so that a slow service cannot hide). Latencies and failures are printed as JSON.
"""

import asyncio
import contextlib
import gc
import json
import random
import resource
import sys
import time
from dataclasses import dataclass, field

import uvloop

HEARTBEAT_SECONDS = 30.0
POLL_SECONDS = 15.0
RECONNECT_SECONDS = 5.0
"""Maximum time, chosen at random, until an agent that lost its connection comes back."""


@dataclass
class Told:
    """Latencies in seconds, failures by kind, and the times at which each agent was answered."""

    heartbeats: list[float] = field(default_factory=list)
    polls: list[float] = field(default_factory=list)
    failures: dict[str, int] = field(default_factory=dict)
    answered_at: dict[int, list[float]] = field(default_factory=dict)

    def fail(self, what: str) -> None:
        self.failures[what] = self.failures.get(what, 0) + 1


class FleetAgent:
    def __init__(self, number: int, agent_id: str, token: str, port: int, told: Told, chance: random.Random) -> None:
        self.number = number
        self.port = port
        self.told = told
        self.chance = chance
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None
        body = json.dumps(
            {
                "agent_id": agent_id,
                "hostname": f"machine-{number}",
                "agent_version": "0.1.0",
                "engine_versions": [{"major": 1, "version": "1.4.0", "path": "/usr/bin/borg"}],
                "capabilities": ["backup.create", "backup.cancel", "logs.stream"],
                "running_job_ids": [],
            }
        )
        head = f"Host: 127.0.0.1\r\nX-Backup-Agent-Authorization: Bearer {token}\r\n"
        self.heartbeat = (
            f"POST /api/agents/heartbeat HTTP/1.1\r\n{head}Content-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}"
        ).encode()
        self.poll = f"GET /api/agents/jobs/poll?limit=1 HTTP/1.1\r\n{head}\r\n".encode()

    async def run(self, deadline: float) -> None:
        due = [
            (time.monotonic() + self.chance.uniform(0, HEARTBEAT_SECONDS), HEARTBEAT_SECONDS, self.heartbeat),
            (time.monotonic() + self.chance.uniform(0, POLL_SECONDS), POLL_SECONDS, self.poll),
        ]
        while (next_at := min(due)[0]) < deadline:
            await asyncio.sleep(max(0.0, next_at - time.monotonic()))
            at, every, request = min(due)
            due.remove((at, every, request))
            due.append((at + every, every, request))
            await self._send(at, request)

    async def _send(self, planned: float, request: bytes) -> None:
        try:
            await self._connected()
            assert self.writer is not None
            self.writer.write(request)
            status = await self._answer()
        except (OSError, asyncio.IncompleteReadError, ValueError, TimeoutError) as error:
            self.told.fail(type(error).__name__)
            await self._lost()
            return
        late = time.monotonic() - planned
        if status != 200:
            self.told.fail(f"HTTP {status}")
            return
        (self.told.heartbeats if request is self.heartbeat else self.told.polls).append(late)
        self.told.answered_at.setdefault(self.number, []).append(time.time())

    async def _connected(self) -> None:
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)

    async def _answer(self) -> int:
        assert self.reader is not None
        async with asyncio.timeout(60):
            head = await self.reader.readuntil(b"\r\n\r\n")
            length = next(
                int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")
            )
            await self.reader.readexactly(length)
        return int(head.split()[1])

    async def _lost(self) -> None:
        if self.writer is not None:
            self.writer.close()
            with contextlib.suppress(OSError):
                await self.writer.wait_closed()
            self.writer = None
        await asyncio.sleep(self.chance.uniform(0, RECONNECT_SECONDS))


async def drive(agents: list[list[str]], port: int, seconds: float, seed: int) -> Told:
    told = Told()
    chance = random.Random(seed)
    fleet = [FleetAgent(number, *each, port, told, chance) for number, each in enumerate(agents)]
    deadline = time.monotonic() + seconds
    await asyncio.gather(*(agent.run(deadline) for agent in fleet))
    return told


def main() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    agents: list[list[str]] = json.load(sys.stdin)
    gc.disable()  # a pause of this program would look like one of the service
    told = uvloop.run(drive(agents, int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])))
    json.dump(
        {
            "heartbeats": told.heartbeats,
            "polls": told.polls,
            "failures": told.failures,
            "answered_at": list(told.answered_at.values()),
        },
        sys.stdout,
    )


if __name__ == "__main__":
    main()
