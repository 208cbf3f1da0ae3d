"""The result of an attempt to send."""

from backup_engine.frozen import frozen


@frozen
class Result:
    ok: bool
    message: str
    retry_after: float | None = None
    is_gone: bool = False
    """The receiver refuses all further messages (HTTP 410)."""
