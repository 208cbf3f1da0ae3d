"""Marks connections that carried a valid credential. If there are too many connections, the server keeps these."""

from typing import Any

KEY = "holdfast.connection"


def mark_authenticated(scope: Any) -> None:
    """Mark the connection of a request, given the request's scope. Safe from any thread."""
    connection = scope.get(KEY)
    if connection is not None:
        connection.is_known = True
