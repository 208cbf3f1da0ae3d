"""Connect to hosts with ASCII names without loading Unicode tables.

For a host name given as text, Python loads all of Unicode's rules for host names, even if the name is plain ASCII: half
a megabyte that the agent would then keep for good. A name given as bytes is used as it is.
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
    """The host name as bytes if it is ASCII; other names need the tables and stay text."""
    return host.encode("ascii") if host.isascii() else host
