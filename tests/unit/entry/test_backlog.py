"""Connections that wait while the event loop is busy."""

import asyncio
import socket

import uvloop

from holdfast.entry.backlog import MOST_AT_ONCE, Backlog
from tests.support.service import PATIENCE

CLIENTS = MOST_AT_ONCE + 20


class Accepted(asyncio.Protocol):
    number = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        Accepted.number += 1
        transport.close()


def test_all_connections_that_wait_are_accepted_in_a_few_rounds() -> None:
    Accepted.number = 0
    with socket.create_server(("127.0.0.1", 0), backlog=CLIENTS) as listening:
        clients = [socket.create_connection(listening.getsockname()) for _ in range(CLIENTS)]
        backlog = Backlog(listening, lambda: CLIENTS)

        async def story() -> None:
            for expected in (MOST_AT_ONCE, CLIENTS):
                backlog.accept_soon(Accepted)
                backlog.accept_soon(Accepted)  # of another connection in the same round
                async with asyncio.timeout(PATIENCE):
                    while Accepted.number < expected:  # noqa: ASYNC110 - counted by the protocol
                        await asyncio.sleep(0.001)
                assert Accepted.number == expected
            backlog.accept_soon(Accepted)
            await asyncio.sleep(0.01)

        uvloop.run(story())
        assert Accepted.number == CLIENTS
        for client in clients:
            client.close()


def test_no_more_connections_are_accepted_than_there_is_room_for() -> None:
    Accepted.number = 0
    with socket.create_server(("127.0.0.1", 0), backlog=10) as listening:
        clients = [socket.create_connection(listening.getsockname()) for _ in range(10)]
        backlog = Backlog(listening, lambda: 4 - Accepted.number)

        async def story() -> None:
            for _ in range(5):
                backlog.accept_soon(Accepted)
                await asyncio.sleep(0.01)

        uvloop.run(story())
        assert Accepted.number == 4
        for client in clients:
            client.close()


def test_a_closed_socket_is_left_alone() -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    backlog = Backlog(listening, lambda: CLIENTS)
    listening.close()

    async def story() -> None:
        backlog.accept_soon(Accepted)
        await asyncio.sleep(0.01)

    uvloop.run(story())
