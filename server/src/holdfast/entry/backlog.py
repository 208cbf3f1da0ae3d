"""Accepts the connections that wait, all at once.

The event loop accepts one connection in each of its rounds. A round of a busy service takes a tenth of a second, so the
last of 256 clients that came at once was accepted after four seconds.
"""

import asyncio
import socket
from collections.abc import Callable

MOST_AT_ONCE = 128
"""Further ones are accepted in the next round, so that a flood of connections does not keep requests waiting."""


class Backlog:
    """The connections that wait on one listening socket. Belongs to the event loop.

    Only as many as there is room for are accepted here. The others are accepted one by one by the loop, and older ones
    are closed for them.
    """

    def __init__(self, listening: socket.socket, room: Callable[[], int]) -> None:
        self._listening = listening
        self._room = room
        listening.setblocking(False)
        self._is_planned = False
        self._being_made: set[asyncio.Task[object]] = set()

    def accept_soon(self, protocol: Callable[[], asyncio.Protocol]) -> None:
        """Accept what waits, in this round of the event loop. Called whenever the loop has accepted a connection."""
        if not self._is_planned:
            self._is_planned = True
            asyncio.get_running_loop().call_soon(self._accept, protocol)

    def _accept(self, protocol: Callable[[], asyncio.Protocol]) -> None:
        self._is_planned = False
        for _ in range(min(MOST_AT_ONCE, self._room() - len(self._being_made))):
            try:
                connection, _ = self._listening.accept()
            except OSError:  # nobody waits, or the loop itself deals with what is wrong
                return
            connection.setblocking(False)
            task = asyncio.get_running_loop().create_task(_make(protocol, connection))
            self._being_made.add(task)
            task.add_done_callback(self._being_made.discard)


async def _make(protocol: Callable[[], asyncio.Protocol], connection: socket.socket) -> None:
    try:
        await asyncio.get_running_loop().connect_accepted_socket(protocol, connection)
    except OSError:  # the client has left
        connection.close()
