"""Decides which addresses messages may be sent to.

The check happens after the name is resolved, and the connection goes to the checked address.
"""

import socket
import threading
from concurrent.futures import Future
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from time import monotonic
from typing import Any

METADATA = frozenset(
    ip_address(address) for address in ("169.254.169.254", "100.100.100.200", "192.0.0.192", "fd00:ec2::254")
)
NAT64 = ip_network("64:ff9b::/96")


class AddressRefused(Exception):
    """The name leads to an address that messages are never sent to."""


def resolve(host: str, port: int, seconds: float) -> list[str]:
    """Return the addresses of a host. Raise AddressRefused if any of them is refused, OSError if there is none."""
    addresses = [str(place[0]) for _, _, _, _, place in _looked_up(host, port, seconds)]
    for address in addresses:
        if is_refused(address):
            raise AddressRefused(f"{host} is a link-local, metadata or otherwise unusable address")
    return addresses


def is_refused(address: str) -> bool:
    """Whether an address, including as IPv6, is link-local, multicast, unspecified, reserved, or a cloud's metadata
    service.
    """
    parsed: IPv4Address | IPv6Address = ip_address(address.split("%")[0])
    inner = _inside(parsed)
    if inner is not None:
        return is_refused(str(inner))
    return (
        parsed in METADATA
        or parsed.is_link_local
        or parsed.is_multicast
        or parsed.is_unspecified
        or (isinstance(parsed, IPv4Address) and (parsed.is_reserved or parsed in ip_network("0.0.0.0/8")))
    )


def _inside(address: IPv4Address | IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address inside an IPv6 one."""
    if isinstance(address, IPv4Address):
        return None
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address in NAT64 or (int(address) >> 32 == 0 and int(address) > 1):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return None


def connect(host: str, port: int, seconds: float) -> socket.socket:
    """Connect to the first address that answers, within a time limit for all of them. Raise AddressRefused or OSError.

    Each address gets an equal share of the remaining time, so that one that drops packets leaves some for the next.
    """
    end = monotonic() + seconds
    failure: OSError | None = None
    found = resolve(host, port, seconds)
    for tried, address in enumerate(found):
        remaining = end - monotonic()
        if remaining <= 0:
            raise TimeoutError from failure
        try:
            connection = socket.create_connection((address, port), remaining / (len(found) - tried))
        except OSError as error:
            failure = error
            continue
        connection.settimeout(remaining)
        return connection
    raise failure or OSError(f"{host} has no address")


def _looked_up(host: str, port: int, seconds: float) -> list[tuple[Any, ...]]:
    """Resolve a name in a thread of its own, which is abandoned when the time is up: the lookup has no time limit."""
    found: Future[list[tuple[Any, ...]]] = Future()

    def look_up() -> None:
        try:
            found.set_result(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, ValueError) as error:
            found.set_exception(error)

    threading.Thread(target=look_up, name="notify-name", daemon=True).start()
    return found.result(seconds)
