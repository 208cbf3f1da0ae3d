"""Connections to hosts with plain names, without the tables for names in other scripts.

Given a name as text, Python loads all of Unicode's rules for host names, however plain it is: half a megabyte that an
agent then keeps for good. Given as bytes, it takes the name as it is.
"""

import http.client
import socket
from typing import Any


class PlainHTTP(http.client.HTTPConnection):
    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._create_connection = connect_by_plain_name


class PlainHTTPS(http.client.HTTPSConnection):
    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._create_connection = connect_by_plain_name

    def connect(self) -> None:
        http.client.HTTPConnection.connect(self)
        host = self._tunnel_host or self.host  # type: ignore[attr-defined] # where a proxy leads to
        self.sock = self._context.wrap_socket(self.sock, server_hostname=plain(host))  # type: ignore[attr-defined]


def connect_by_plain_name(address: tuple[str, int], *arguments: Any, **more: Any) -> socket.socket:
    host, port = address
    return socket.create_connection((plain(host), port), *arguments, **more)  # type: ignore[arg-type] # it takes both


def plain(host: str) -> str | bytes:
    """The name as bytes, unless it is one of those that need the tables."""
    return host.encode("ascii") if host.isascii() else host
