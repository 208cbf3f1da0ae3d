"""Slow heads and bodies, and unread responses, used up the descriptors and kept other clients out."""

import asyncio
import contextlib
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from holdfast.api.authenticated_connections import mark_authenticated
from holdfast.api.headers import ALL
from holdfast.entry import connection_gate
from holdfast.entry.connection_gate import Bounds, Gate, connections_within, trusted_networks
from holdfast.entry.guarded_http import MOST_HEAD_BYTES, guarded
from tests.support.service import PATIENCE, ServiceProcess

LOOSE = Bounds(
    most=1000,
    per_address=1000,
    strangers_per_address=1000,
    head_seconds=PATIENCE,
    body_seconds=PATIENCE,
    stall_seconds=PATIENCE,
)
REQUEST = b"GET / HTTP/1.1\r\nhost: here\r\n\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nhost: here\r\ntransfer-encoding: chunked\r\n\r\n"
LARGE = 64 * 1024 * 1024
PIECE = 1024 * 1024
Ask = Callable[..., Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Reads the body, treats `/known` as a valid credential, and serves a large response at `/large`.

    It responds in pieces, as lists and downloads do: the server itself closes a connection whose whole response it has.
    """
    if scope["path"] == "/known":
        mark_authenticated(scope)
    while (message := await receive())["type"] == "http.request" and message.get("more_body"):
        continue
    size = LARGE if scope["path"] == "/large" else 2
    status = 400 if b"late" in dict(scope["headers"]) else 200
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", str(size).encode())]})
    for left in range(size, 0, -PIECE):
        piece = b"o" * min(left, PIECE)
        await send({"type": "http.response.body", "body": piece, "more_body": left > PIECE})


@contextlib.asynccontextmanager
async def serving(bounds: Bounds, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Gate, Ask]]:
    monkeypatch.setattr(connection_gate, "SWEEP_SECONDS", 0.01)
    gate = Gate(bounds)
    config = uvicorn.Config(app, http=guarded(gate), ws="none", log_config=None, access_log=False, lifespan="off")
    config.load()
    state = ServerState()
    protocol: Any = config.http_protocol_class
    server = await asyncio.get_running_loop().create_server(
        lambda: protocol(config=config, server_state=state, app_state={}), "127.0.0.1", 0
    )
    port = server.sockets[0].getsockname()[1]
    writers: list[asyncio.StreamWriter] = []

    async def ask(
        words: bytes = REQUEST, address: str = "127.0.0.1"
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
        writers.append(writer)
        writer.write(words)
        return reader, writer

    try:
        yield gate, ask
    finally:
        for writer in writers:
            writer.transport.abort()
        server.close()


async def status_of(reader: asyncio.StreamReader) -> int:
    return int((await reader.readline()).split()[1])


async def is_cut(reader: asyncio.StreamReader) -> bool:
    """Wait until the connection has ended."""
    with contextlib.suppress(ConnectionError):
        while await reader.read(65536):
            continue
    return True


def play(story: Callable[[], Awaitable[None]]) -> None:
    async def in_time() -> None:
        async with asyncio.timeout(PATIENCE):
            await story()

    asyncio.run(in_time())


def test_a_head_that_arrives_too_slowly_ends_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with serving(replace(LOOSE, head_seconds=0.2), monkeypatch) as (_, ask):
            reader, writer = await ask(b"GET / HTTP/1.1\r\nx: ")
            dribble = asyncio.create_task(_dribble(writer, b"x"))
            head = await reader.readuntil(b"\r\n\r\n")
            dribble.cancel()
            assert head.startswith(b"HTTP/1.1 408 ")
            assert all(name + b": " + value in head for name, value in ALL)
            assert await is_cut(reader)

    play(story)


def test_a_silent_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with serving(replace(LOOSE, head_seconds=0.2), monkeypatch) as (_, ask):
            reader, _writer = await ask(b"")
            assert await reader.read() == b""

    play(story)


def test_a_second_head_on_a_kept_alive_connection_has_a_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with serving(replace(LOOSE, head_seconds=0.2), monkeypatch) as (_, ask):
            reader, writer = await ask(REQUEST)
            assert await status_of(reader) == 200
            writer.write(b"GET / HT")
            assert b"408 Request Timeout" in await reader.read()

    play(story)


def test_a_body_that_arrives_too_slowly_ends_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with serving(replace(LOOSE, body_seconds=0.2), monkeypatch) as (_, ask):
            reader, writer = await ask(b"POST / HTTP/1.1\r\nhost: here\r\ncontent-length: 1000000\r\n\r\n")
            dribble = asyncio.create_task(_dribble(writer, b"x"))
            assert await status_of(reader) == 408
            dribble.cancel()
            assert await is_cut(reader)

    play(story)


def test_output_streamed_by_an_agent_has_no_body_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        bounds = replace(LOOSE, body_seconds=0.05, streamed=("/stream/",))
        async with serving(bounds, monkeypatch) as (_, ask):
            slow, _ = await ask(b"POST / HTTP/1.1\r\nhost: here\r\ncontent-length: 2\r\n\r\nx")
            reader, writer = await ask(b"POST /stream/1 HTTP/1.1\r\nhost: here\r\ncontent-length: 2\r\n\r\nx")
            assert await status_of(slow) == 408, "the time of both is over"
            writer.write(b"x")
            assert await status_of(reader) == 200

    play(story)


async def _steadily(writer: asyncio.StreamWriter, pieces: int, piece: bytes) -> None:
    with contextlib.suppress(ConnectionError):
        for _ in range(pieces):
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    ("path", "piece", "status"),
    [
        ("/reports/1", b"x" * 1000, 200),
        ("/reports/1", b"x", 408),  # too slowly
        ("/other", b"x" * 1000, 408),  # not a report
    ],
)
def test_a_report_of_an_agent_may_take_long_while_it_arrives_steadily(
    monkeypatch: pytest.MonkeyPatch, path: str, piece: bytes, status: int
) -> None:
    async def story() -> None:
        async with serving(replace(LOOSE, body_seconds=0.2, steady=("/reports/",)), monkeypatch) as (_, ask):
            head = f"POST {path} HTTP/1.1\r\nhost: here\r\ncontent-length: {20 * len(piece)}\r\n\r\n"
            reader, writer = await ask(head.encode())
            arriving = asyncio.create_task(_steadily(writer, 20, piece))
            assert await status_of(reader) == status
            arriving.cancel()

    play(story)


def test_even_a_steady_report_has_a_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with serving(replace(LOOSE, body_seconds=0.05, steady=("/reports/",)), monkeypatch) as (_, ask):
            reader, writer = await ask(b"POST /reports/1 HTTP/1.1\r\nhost: here\r\ncontent-length: 900000000\r\n\r\n")
            arriving = asyncio.create_task(_steadily(writer, 1_000_000, b"x" * 1000))
            assert await status_of(reader) == 408
            arriving.cancel()

    play(story)


def test_an_endless_head_is_refused_before_it_fills_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with serving(LOOSE, monkeypatch) as (_, ask):
            reader, writer = await ask(b"GET / HTTP/1.1\r\nx: ")
            for _ in range(4):
                writer.write(b"y" * (MOST_HEAD_BYTES // 2))
            assert await status_of(reader) == 431

    play(story)


def head(size: int) -> bytes:
    """A request without a body of exactly this size."""
    start, end = b"GET / HTTP/1.1\r\nhost: here\r\nx: ", b"\r\n\r\n"
    return start + b"y" * (size - len(start) - len(end)) + end


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (head(MOST_HEAD_BYTES), 200),
        (head(MOST_HEAD_BYTES + 1), 431),
        (head(65 * 1024), 431),
        (b"GET / HTTP/1.1\r\nhost: here\r\n" + b"x: y\r\n" * 12_000 + b"\r\n", 431),
    ],
    ids=["just small enough", "a byte more", "65 KiB", "many fields"],
)
@pytest.mark.parametrize("piece", [2**18, 40_000, 1_000])
def test_the_size_limit_of_a_head_is_exact(
    monkeypatch: pytest.MonkeyPatch, sent: bytes, status: int, piece: int
) -> None:
    if piece < len(sent):  # bytes that arrive after a refusal reset the connection, and the response is lost
        sent = sent[: MOST_HEAD_BYTES + 1]

    async def story() -> None:
        async with serving(LOOSE, monkeypatch) as (_, ask):
            reader, writer = await ask(sent[:piece])
            for start in range(piece, len(sent), piece):
                await asyncio.sleep(0)
                writer.write(sent[start : start + piece])
            assert await status_of(reader) == status

    play(story)


def test_many_small_requests_in_one_piece_do_not_count_as_a_large_head(monkeypatch: pytest.MonkeyPatch) -> None:
    many = b"GET / HTTP/1.1\r\nhost: here\r\n\r\n" * 4_000 + b"GET / HTTP/1.1\r\nhost"

    async def story() -> None:
        async with serving(LOOSE, monkeypatch) as (_, ask):
            reader, writer = await ask(many)
            writer.write(b": here\r\nconnection: close\r\n\r\n")
            assert (await reader.read()).count(b"HTTP/1.1 200") == 4_001

    play(story)


def test_an_upgrade_request_is_served_and_logs_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with serving(LOOSE, monkeypatch) as (_, ask):
            reader, _ = await ask(b"GET / HTTP/1.1\r\nhost: here\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n")
            assert await status_of(reader) == 200

    play(story)
    assert not caplog.records


@pytest.mark.parametrize("fields", [b"x: y\r\n" * 8000, b"y" * 48_000], ids=["many", "one without end"])
def test_trailer_fields_are_refused_before_they_fill_the_memory(monkeypatch: pytest.MonkeyPatch, fields: bytes) -> None:
    """A stranger made the service allocate 550 MB in two seconds by sending 45 MB of fields."""

    async def story() -> None:
        async with serving(LOOSE, monkeypatch) as (_, ask):
            reader, writer = await ask(CHUNKED + b"0\r\nx: ")
            for _ in range(4):
                writer.write(fields)
            assert await is_cut(reader)

    play(story)


def test_a_body_in_many_small_chunks_with_a_few_trailer_fields_is_accepted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story() -> None:
        async with serving(LOOSE, monkeypatch) as (_, ask):
            reader, writer = await ask(CHUNKED)
            for _ in range(10):
                writer.write(b"1\r\nx\r\n" * 10_000)
            writer.write(b"0\r\nlate: y\r\n\r\n")
            assert await status_of(reader) == 200, "what comes behind the body does not change the head"

    play(story)


def test_an_unread_response_ends_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with serving(replace(LOOSE, stall_seconds=0.2), monkeypatch) as (gate, ask):
            _, writer = await ask(b"GET /large HTTP/1.1\r\nhost: here\r\n\r\n")
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            for expected in (1, 0):
                while len(gate) != expected:  # noqa: ASYNC110 - the gate sends no signal
                    await asyncio.sleep(0.01)

    play(story)


def test_slow_heads_from_one_address_do_not_keep_others_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with serving(replace(LOOSE, most=30), monkeypatch) as (gate, ask):
            slow = [await ask(b"GET / HT") for _ in range(60)]
            for address in ("127.0.0.1", "127.0.0.2"):
                reader, _ = await ask(REQUEST, address)
                assert await status_of(reader) == 200
            assert len(gate) <= 30
            assert await is_cut(slow[0][0]), "the oldest went first"

    play(story)


def test_strangers_never_displace_authenticated_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with serving(replace(LOOSE, most=10), monkeypatch) as (_, ask):
            known = [await ask(b"GET /known HTTP/1.1\r\nhost: here\r\n\r\n") for _ in range(10)]
            for reader, _ in known:
                assert await status_of(reader) == 200
            stranger, _ = await ask(b"GET / HT")
            assert await status_of(stranger) == 503
            reader, writer = known[0]
            writer.write(REQUEST)
            await reader.readuntil(b"oo")
            assert await status_of(reader) == 200

    play(story)


def test_a_fleet_behind_one_address_is_not_mistaken_for_a_flood(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_gate, "YOUNG_SECONDS", 0.0)

    async def story() -> None:
        async with serving(replace(LOOSE, strangers_per_address=5), monkeypatch) as (gate, ask):
            for _ in range(40):
                reader, _ = await ask(b"GET /known HTTP/1.1\r\nhost: here\r\n\r\n")
                assert await status_of(reader) == 200
            assert len(gate) == 40
            for _ in range(40):
                await ask(b"GET / HT")
            reader, _ = await ask(REQUEST)
            assert await status_of(reader) == 200
            assert len(gate) <= 46

    play(story)


def test_the_limit_per_address_does_not_apply_to_a_trusted_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        bounds = replace(LOOSE, per_address=3, strangers_per_address=1, trusted=(ip_network("127.0.0.2"),))
        async with serving(bounds, monkeypatch) as (gate, ask):
            for _ in range(20):
                reader, _ = await ask(REQUEST, "127.0.0.2")
                assert await status_of(reader) == 200
            for _ in range(20):
                await ask(b"GET / HT", "127.0.0.1")
            reader, _ = await ask(REQUEST, "127.0.0.1")
            assert await status_of(reader) == 200
            assert len(gate) == 20 + 3

    play(story)


class Peer:
    """A connection as the gate sees it."""

    is_known = False
    is_closed = False
    since = 0.0

    def __init__(self, address: str) -> None:
        self.address: str | None = address
        self.is_turned_away = False

    def turn_away(self) -> None:
        self.is_turned_away = True

    def check(self, now: float) -> None:
        raise NotImplementedError

    def is_closing(self) -> bool:
        return self.is_closed or self.is_turned_away


def test_all_addresses_of_one_ipv6_network_count_as_one() -> None:
    gate = Gate(replace(LOOSE, per_address=3))
    peers = [Peer(f"2001:db8::{number:x}") for number in range(10)]
    other = Peer("2001:db8:0:1::1")

    assert all(gate.admit(peer, 100.0) for peer in [*peers, other])

    assert sum(peer.is_turned_away for peer in peers) == 7
    assert not other.is_turned_away


def test_a_closing_connection_is_aborted_if_its_peer_does_not_read_the_rest() -> None:
    gate, peer, other = Gate(LOOSE), Peer("192.0.2.1"), Peer("192.0.2.1")
    assert gate.admit(peer, 0.0)
    assert gate.admit(other, 0.0)
    peer.is_closed = True

    gate._abort_unread(100.0)
    assert not peer.is_turned_away, "it has a minute from when it was seen closing"
    gate._abort_unread(101.0 + connection_gate.CLOSING_SECONDS)

    assert (peer.is_turned_away, other.is_turned_away) == (True, False)


def test_trusted_proxies_in_the_settings_are_networks_or_addresses() -> None:
    assert trusted_networks("192.0.2.1, 10.0.0.0/8,nonsense") == (ip_network("192.0.2.1"), ip_network("10.0.0.0/8"))
    assert trusted_networks(None) == ()
    assert len(trusted_networks("*")) == 2


def test_the_soft_descriptor_limit_is_raised_and_connections_never_use_it_up() -> None:
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (256, 4000))\n"
        "from holdfast.entry.connection_gate import raise_descriptor_limit\n"
        "print(raise_descriptor_limit(40_000), *resource.getrlimit(resource.RLIMIT_NOFILE))\n"
        "print(raise_descriptor_limit(10))"
    )

    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert told.split() == ["4000", "4000", "4000", "4000"]
    assert connections_within(40_000, 4000) == 2000
    assert connections_within(40_000, 100_000) == 40_000


def test_a_service_with_few_descriptors_responds_despite_hundreds_of_slow_heads(tmp_path: Path) -> None:
    service = ServiceProcess(tmp_path / "data", prefix=("prlimit", "--nofile=200:600"))
    slow: list[socket.socket] = []
    try:
        service.start()
        for _ in range(700):
            connection = socket.create_connection(("127.0.0.1", service.port))
            connection.send(b"GET /health/live HT")
            slow.append(connection)
        assert service.client().get("/health/ready").status_code == 200
    finally:
        for connection in slow:
            connection.close()
        service.stop()


async def _dribble(writer: asyncio.StreamWriter, piece: bytes) -> None:
    with contextlib.suppress(ConnectionError):
        while True:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.02)
