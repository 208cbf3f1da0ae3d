"""`python -m bench.crowd_support.clients < plan.json`: slow clients of several sorts in one process, until its input
ends.

A client that is refused or cut off comes back after a pause.
"""

import asyncio
import contextlib
import json
import resource
import socket
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import uvloop

DRIBBLE_SECONDS = 5.0
AGAIN_SECONDS = 5.0
SMALL_WINDOW = 4096
COSTLY_SCHEDULE = json.dumps(
    {
        "cron_expression": "*/5 * * * *",
        "targets": {"all": True},
        "windows": [{"days": ["fri"], "from": "03:02", "to": f"03:{number + 3:02}"} for number in range(50)],
    }
)
COSTLY_POLICIES = json.dumps(
    {
        "policy": {"keep_hourly": 5000},
        "compare_with": {"keep_last": 5000},
        "until": (datetime.now(UTC).date() + timedelta(days=700)).isoformat(),
        "every_minutes": 60,
    }
)


@dataclass(frozen=True)
class Plan:
    port: int
    number: int
    sorts: list[str]
    credential: str
    agents: list[str]
    live: str
    folders: str
    download: str
    simulate: str
    calendar: str


class Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def dribble(self, begin: str) -> None:
        """Send a beginning, and then a byte from time to time, until the service closes the connection."""
        self.writer.write(begin.encode())
        while not self.reader.at_eof():
            await asyncio.sleep(DRIBBLE_SECONDS)
            self.writer.write(b"x")
            await self.writer.drain()

    async def ask(self, path: str, *headers: str, body: str | None = None) -> int:
        lines = [f"{'GET' if body is None else 'POST'} {path} HTTP/1.1", "Host: here", *headers]
        if body is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        self.writer.write(("\r\n".join(lines) + "\r\n\r\n" + (body or "")).encode())
        await self.writer.drain()
        return int((await self.reader.readline()).split()[1])

    async def stay(self) -> None:
        """Read nothing more until the connection is cut."""
        self.writer.transport.pause_reading()  # type: ignore[attr-defined]
        while not self.writer.is_closing():  # noqa: ASYNC110 - a cut can only be polled for
            await asyncio.sleep(1)


async def heads(one: Connection, _plan: Plan, _number: int) -> None:
    await one.dribble("GET /health/live HTTP/1.1\r\nx: ")


async def bodies(one: Connection, _plan: Plan, _number: int) -> None:
    await one.dribble("POST /api/auth/login HTTP/1.1\r\nHost: here\r\nContent-Length: 100000\r\n\r\n")


async def downloads(one: Connection, plan: Plan, _number: int) -> None:
    if await one.ask(plan.download, plan.credential) == 200:
        await one.stay()


async def live_lists(one: Connection, plan: Plan, _number: int) -> None:
    await again_and_again(one, plan.live, plan.credential)


async def folders(one: Connection, plan: Plan, number: int) -> None:
    """Read folders of an archive that is not indexed. Each client requests a different page, so that no two can share
    an engine.
    """
    await again_and_again(one, f"{plan.folders}?limit={number + 1}", plan.credential)


async def previews(one: Connection, plan: Plan, _number: int) -> None:
    """Preview a schedule that is costly to look ahead: due every five minutes, with fifty windows."""
    await again_and_again(one, "/api/schedules/preview", plan.credential, COSTLY_SCHEDULE)


async def simulations(one: Connection, plan: Plan, _number: int) -> None:
    """Simulate two policies over two years of hourly backups."""
    await again_and_again(one, plan.simulate, plan.credential, COSTLY_POLICIES)


async def calendars(one: Connection, plan: Plan, _number: int) -> None:
    """Request the calendar of a schedule that is due every five minutes: 10,000 entries."""
    await again_and_again(one, plan.calendar, plan.credential)


async def again_and_again(one: Connection, path: str, credential: str, body: str | None = None) -> None:
    while await one.ask(path, credential, body=body) == 200:
        head = await one.reader.readuntil(b"\r\n\r\n")
        await one.reader.readexactly(int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]))


async def event_streams(one: Connection, plan: Plan, _number: int) -> None:
    if await one.ask("/api/events/stream", plan.credential) == 200:
        await one.stay()


async def long_polls(one: Connection, plan: Plan, number: int) -> None:
    while await one.ask("/api/agents/jobs/poll?wait=30", f"X-Backup-Agent-Authorization: Bearer {plan.agents[number]}"):
        head = await one.reader.readuntil(b"\r\n\r\n")
        await one.reader.readexactly(int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]))


Sort = Callable[[Connection, Plan, int], Awaitable[None]]
SORTS: dict[str, Sort] = {
    "heads": heads,
    "bodies": bodies,
    "downloads": downloads,
    "live lists": live_lists,
    "folders": folders,
    "previews": previews,
    "simulations": simulations,
    "calendars": calendars,
    "event streams": event_streams,
    "long polls": long_polls,
}


async def for_ever(sort: Sort, plan: Plan, number: int) -> None:
    await asyncio.sleep(number * 0.005)
    while True:
        with contextlib.suppress(OSError, EOFError, IndexError, ValueError, asyncio.IncompleteReadError):
            small = socket.socket()
            small.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_WINDOW)
            small.setblocking(False)
            await asyncio.get_running_loop().sock_connect(small, ("127.0.0.1", plan.port))
            reader, writer = await asyncio.open_connection(sock=small)
            try:
                await sort(Connection(reader, writer), plan, number)
            finally:
                writer.transport.abort()
        await asyncio.sleep(AGAIN_SECONDS)


async def crowd(plan: Plan) -> None:
    tasks = [
        asyncio.create_task(for_ever(SORTS[name], plan, number)) for name in plan.sorts for number in range(plan.number)
    ]
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def main() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    plan: dict[str, Any] = json.loads(sys.stdin.readline())
    uvloop.run(crowd(Plan(**plan)))


if __name__ == "__main__":
    main()
