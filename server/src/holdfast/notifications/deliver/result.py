"""The result of an attempt to send."""

from backup_engine.frozen import frozen


@frozen
class Result:
    ok: bool
    message: str
    retry_after: float | None = None
    is_gone: bool = False
    """The receiver refuses all further messages (HTTP 410)."""
    is_refused: bool = False
    """The receiver will never accept this message, so it is not sent again."""
