"""Connections on which somebody has shown a valid credential. The server keeps them when it has too many others."""

from typing import Any

KEY = "holdfast.connection"


def mark_known(scope: Any) -> None:
    """Given the scope of a request whose credential is valid, mark its connection. Any thread may do it."""
    connection = scope.get(KEY)
    if connection is not None:
        connection.is_known = True
