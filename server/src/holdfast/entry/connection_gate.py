"""Which connections may stay open: limited in total and per address, so that slow clients do not lock others out.

A connection counts as unknown until a request on it carries a valid credential. When there are too many connections,
the oldest unknown ones are closed first, so a fleet of agents behind one address is never mistaken for a flood.
"""

import asyncio
import resource
from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Protocol

from backup_engine.frozen import frozen

SPARE_DESCRIPTORS = 2048
"""Reserved for the store, engines, logs and pipes."""
YOUNG_SECONDS = 2.0
"""An unknown connection has this long to send its first request before a newer one may push it out."""
SWEEP_SECONDS = 1.0
CLOSING_SECONDS = 60.0
"""How long a closed connection may take to send the rest of its data."""


class Connection(Protocol):
    is_known: bool
    since: float
    address: str | None

    def turn_away(self) -> None: ...

    def check(self, now: float) -> None: ...

    def is_closing(self) -> bool: ...


@frozen
class Bounds:
    most: int
    per_address: int
    strangers_per_address: int
    head_seconds: float
    body_seconds: float
    stall_seconds: float
    trusted: Sequence[IPv4Network | IPv6Network] = ()
    """Reverse proxies: many clients share one of their addresses."""
    streamed: tuple[str, ...] = ()
    """Path prefixes of requests that may take any time once the application is handling them."""
    steady: tuple[str, ...] = ()
    """Path prefixes of requests whose bodies may take longer than `body_seconds` while they arrive steadily."""


@dataclass
class _Address:
    count: int = 0
    strangers: dict[Connection, None] = field(default_factory=dict)


class Gate:
    """Admits and watches connections. Belongs to the event loop. Dictionaries keep their order, oldest first."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self._all: dict[Connection, float | None] = {}
        """Every connection, with the time when it was first seen closing."""
        self._strangers: dict[Connection, None] = {}
        self._addresses: dict[str, _Address] = {}
        self._watched: dict[Connection, None] = {}
        self._sweeper: asyncio.TimerHandle | None = None
        self._sweeps = 0

    def __len__(self) -> int:
        return len(self._all)

    def room(self) -> int:
        """Return how many connections can be admitted without closing others."""
        return self.bounds.most - len(self._all)

    def admit(self, connection: Connection, now: float) -> bool:
        """Count a new connection, closing an older unknown one if necessary. Return False if there is no room."""
        if len(self._all) >= self.bounds.most and not self._push_out(self._strangers, now, 0.0):
            return False
        connection.address = address = self._counted_for(connection.address)
        if address is not None:
            here = self._addresses.setdefault(address, _Address())
            if here.count >= self.bounds.per_address and not self._push_out(here.strangers, now, 0.0):
                return False
            if len(here.strangers) >= self.bounds.strangers_per_address:
                self._push_out(here.strangers, now, YOUNG_SECONDS)
            here = self._addresses.setdefault(address, here)
            here.count += 1
            here.strangers[connection] = None
        self._all[connection] = None
        self._strangers[connection] = None
        return True

    def leave(self, connection: Connection) -> None:
        if connection not in self._all:
            return
        del self._all[connection]
        self._watched.pop(connection, None)
        self._no_stranger(connection)
        here = self._addresses.get(connection.address or "")
        if here is not None:
            here.count -= 1
            if here.count <= 0:
                del self._addresses[connection.address or ""]

    def watch(self, connection: Connection) -> None:
        """Check a connection every second until no deadline is running on it."""
        self._watched[connection] = None
        if self._sweeper is None:
            self._sweep_later()

    def unwatch(self, connection: Connection) -> None:
        self._watched.pop(connection, None)

    def _push_out(self, strangers: dict[Connection, None], now: float, older_than: float) -> bool:
        while strangers:
            oldest = next(iter(strangers))
            if not oldest.is_known and now - oldest.since < older_than:
                return False
            self._no_stranger(oldest)
            if not oldest.is_known:
                self.leave(oldest)
                oldest.turn_away()
                return True
        return False

    def _no_stranger(self, connection: Connection) -> None:
        self._strangers.pop(connection, None)
        here = self._addresses.get(connection.address or "")
        if here is not None:
            here.strangers.pop(connection, None)

    def _counted_for(self, address: str | None) -> str | None:
        """The address whose limits apply: for IPv6 its /64 network, for a trusted proxy none."""
        try:
            parsed = ip_address(address or "")
        except ValueError:
            return address
        if any(parsed in network for network in self.bounds.trusted):
            return None
        if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is None:
            return str(ip_network((int(parsed), 64), strict=False))
        return address

    def _sweep_later(self) -> None:
        self._sweeper = asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._sweep)

    def _sweep(self) -> None:
        self._sweeper = None
        now = asyncio.get_running_loop().time()
        try:
            for connection in list(self._watched):
                connection.check(now)
            self._sweeps += 1
            if self._sweeps % 30 == 0:
                self._abort_unread(now)
        finally:
            if self._all:
                self._sweep_later()

    def _abort_unread(self, now: float) -> None:
        """Abort closed connections whose peers do not read the rest of the last answer."""
        for connection, closing in list(self._all.items()):
            if not connection.is_closing():
                continue
            if closing is None:
                self._all[connection] = now
            elif now - closing > CLOSING_SECONDS:
                connection.turn_away()


def raise_descriptor_limit(connections: int) -> int:
    """Raise the soft limit on open files to what connections and the service's own files need; return the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + SPARE_DESCRIPTORS
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return wanted if soft == resource.RLIM_INFINITY else soft


def connections_within(wanted: int, descriptors: int) -> int:
    """How many connections fit the limit on open files, with some left for everything else."""
    return min(wanted, max(descriptors - SPARE_DESCRIPTORS, descriptors // 2))


def trusted_networks(proxies: str | None) -> tuple[IPv4Network | IPv6Network, ...]:
    """The settings' proxies as networks; invalid addresses are ignored, as the HTTP server does."""
    found: list[IPv4Network | IPv6Network] = []
    for word in (proxies or "").split(","):
        if word.strip() == "*":
            return (ip_network("0.0.0.0/0"), ip_network("::/0"))
        try:
            found.append(ip_network(word.strip(), strict=False))
        except ValueError:
            continue
    return tuple(found)
