"""Connections with a request whose credential was valid. The server keeps these when it has too many."""

from typing import Any

KEY = "holdfast.connection"


def mark_known(scope: Any) -> None:
    """Given the scope of a request whose credential is valid, mark its connection. Any thread may do it."""
    connection = scope.get(KEY)
    if connection is not None:
        connection.is_known = True
