"""`python -m bench.requests_support.load < plan.json`: request one path over many connections and print the results.

Each connection sends its next request when the answer is complete. Only the status and the length are parsed from the
head: a client that costs more than the service would measure itself.
"""

import asyncio
import json
import sys
import time
from dataclasses import dataclass, field
from typing import Any

import uvloop

from holdfast.kit.standard_output import write_completely

WARM_UP_SECONDS = 0.3


@dataclass
class Counted:
    times: list[float] = field(default_factory=list)
    errors: int = 0


class Asking(asyncio.Protocol):
    def __init__(self, request: bytes, counted: Counted, until: float, done: "asyncio.Future[None]") -> None:
        self.request, self.counted, self.until, self.done = request, counted, until, done
        self.began = 0.0
        self.buffer = b""
        self.missing = -1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport
        self.ask()

    def ask(self) -> None:
        self.began = time.perf_counter()
        if self.began > self.until:
            self.finish()
        else:
            self.transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        if self.missing < 0:
            self.buffer += data
            head, found, rest = self.buffer.partition(b"\r\n\r\n")
            if not found:
                return
            self.buffer = b""
            lowered = head.lower()
            place = lowered.find(b"content-length: ") + 16
            self.missing = int(lowered[place:].split(b"\r\n", 1)[0]) if place >= 16 else 0
            if not head.startswith(b"HTTP/1.1 200"):
                self.counted.errors += 1
            data = rest
        self.missing -= len(data)
        if self.missing == 0:
            self.missing = -1
            self.counted.times.append(time.perf_counter() - self.began)
            self.ask()

    def connection_lost(self, _error: Exception | None) -> None:
        if not self.done.done():
            self.counted.errors += 1
            self.finish()

    def finish(self) -> None:
        if not self.done.done():
            self.done.set_result(None)
        self.transport.close()


async def ask_all(plan: dict[str, Any], seconds: float) -> Counted:
    counted = Counted()
    loop = asyncio.get_running_loop()
    until = time.perf_counter() + seconds
    lines = [f"GET {plan['path']} HTTP/1.1", "Host: here", *plan["headers"], "", ""]
    request = "\r\n".join(lines).encode()
    ends: list[asyncio.Future[None]] = []
    for _ in range(plan["connections"]):
        end = loop.create_future()
        ends.append(end)
        try:
            await loop.create_connection(
                lambda end=end: Asking(request, counted, until, end), "127.0.0.1", plan["port"]
            )
        except OSError:
            counted.errors += 1
            end.set_result(None)
    await asyncio.gather(*ends)
    return counted


async def run(plan: dict[str, Any]) -> dict[str, Any]:
    await ask_all({**plan, "connections": min(plan["connections"], 8)}, WARM_UP_SECONDS)
    print("warm", flush=True)
    sys.stdin.readline()
    began = time.perf_counter()
    counted = await ask_all(plan, plan["seconds"])
    return {"seconds": time.perf_counter() - began, "times": counted.times, "errors": counted.errors}


def main() -> None:
    write_completely()  # one line of several hundred kilobytes
    plan = json.loads(sys.stdin.readline())
    print(json.dumps(uvloop.run(run(plan))), flush=True)


if __name__ == "__main__":
    main()
